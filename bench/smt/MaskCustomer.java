package bench;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Masks a field of JSON in a value of bytes, which Connect's own MaskField cannot, by the expression of the benchmark's
 * SQL.
 */
public final class MaskCustomer<R extends ConnectRecord<R>> implements Transformation<R> {
    private static final Pattern FIELD = Pattern.compile("\"customer\": \"[^\"]*\"");

    @Override
    public R apply(R record) {
        String text = new String((byte[]) record.value(), StandardCharsets.UTF_8);
        byte[] masked = FIELD.matcher(text).replaceAll("\"customer\": \"***\"").getBytes(StandardCharsets.UTF_8);
        return record.newRecord(
            record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(), masked,
            record.timestamp(), record.headers());
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
