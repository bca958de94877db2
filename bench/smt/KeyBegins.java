package bench;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Whether a key of bytes begins with `prefix`. None of Connect's own predicates looks at keys. */
public final class KeyBegins<R extends ConnectRecord<R>> implements Predicate<R> {
    private byte[] prefix;

    @Override
    public boolean test(R record) {
        byte[] key = (byte[]) record.key();
        return key != null && key.length >= prefix.length
            && Arrays.equals(key, 0, prefix.length, prefix, 0, prefix.length);
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("prefix", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "how it begins");
    }

    @Override
    public void configure(Map<String, ?> settings) {
        prefix = settings.get("prefix").toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
    }
}
