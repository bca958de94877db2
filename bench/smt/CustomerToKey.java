package bench;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Makes a field of JSON the key; Connect's own ValueToKey works on no bytes. It reads no further than that field. Other
 * values, such as heartbeats, keep their keys.
 */
public final class CustomerToKey<R extends ConnectRecord<R>> implements Transformation<R> {
    private final JsonFactory json = new JsonFactory();

    @Override
    public R apply(R record) {
        byte[] value = (byte[]) record.value();
        if (value == null || value.length == 0 || value[0] != '{') {
            return record;
        }
        return record.newRecord(
            record.topic(), record.kafkaPartition(), Schema.OPTIONAL_BYTES_SCHEMA, customer(value),
            record.valueSchema(), record.value(), record.timestamp(), record.headers());
    }

    private byte[] customer(byte[] value) {
        try (JsonParser parser = json.createParser(value)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                boolean isIt = parser.currentName().equals("customer");
                parser.nextToken();
                if (isIt) {
                    return parser.getText().getBytes(StandardCharsets.UTF_8);
                }
                parser.skipChildren();
            }
            return null;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
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
