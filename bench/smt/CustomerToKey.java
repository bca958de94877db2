package bench;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.transforms.Transformation;

/** Makes a field of JSON the key; Connect's own ValueToKey works on no bytes. Other values keep their keys. */
public final class CustomerToKey<R extends ConnectRecord<R>> implements Transformation<R> {
    @Override
    public R apply(R record) {
        String customer = Fields.read((byte[]) record.value(), "customer");
        if (customer == null) {
            return record;
        }
        return record.newRecord(
            record.topic(), record.kafkaPartition(), Schema.OPTIONAL_BYTES_SCHEMA,
            customer.getBytes(StandardCharsets.UTF_8), record.valueSchema(), record.value(), record.timestamp(),
            record.headers());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> settings) {
    }

    @Override
    public void close() {
    }
}
