package bench;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Whether a `field` of a JSON value has the `value`. None of Connect's own predicates looks into values. */
public final class FieldIs<R extends ConnectRecord<R>> implements Predicate<R> {
    private String field;
    private String value;

    @Override
    public boolean test(R record) {
        return value.equals(Fields.read((byte[]) record.value(), field));
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("field", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "its name")
            .define("value", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "its value");
    }

    @Override
    public void configure(Map<String, ?> settings) {
        field = settings.get("field").toString();
        value = settings.get("value").toString();
    }

    @Override
    public void close() {
    }
}
