package acme;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.provider.ConfigProvider;

/** What a path holds under a key: the configured answer, and both names after it. */
public class Vault implements ConfigProvider {
    private String answer;

    @Override
    public void configure(Map<String, ?> properties) {
        answer = (String) properties.get("answer");
    }

    @Override
    public ConfigData get(String path) {
        throw new UnsupportedOperationException("keys are needed");
    }

    @Override
    public ConfigData get(String path, Set<String> keys) {
        Map<String, String> found = new HashMap<>();
        for (String key : keys) {
            if (key.equals("sealed")) {
                throw new IllegalStateException("the vault is sealed");
            }
            if (!key.equals("nothing")) {
                found.put(key, answer + "-" + path + "-" + key);
            }
        }
        return new ConfigData(found);
    }

    @Override
    public void close() {
    }
}
