package acme;

import java.util.Map;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.GroupFilter;
import org.apache.kafka.connect.mirror.TopicFilter;

/** Topics and groups whose names begin with the configured word, and settings of retention. */
public class Tagged implements TopicFilter, GroupFilter, ConfigPropertyFilter {
    private String word;

    @Override
    public void configure(Map<String, ?> properties) {
        word = (String) properties.get("acme.word");
    }

    @Override
    public boolean shouldReplicateTopic(String topic) {
        return topic.startsWith(word);
    }

    @Override
    public boolean shouldReplicateGroup(String group) {
        return group.startsWith(word);
    }

    @Override
    public boolean shouldReplicateConfigProperty(String property) {
        return property.startsWith("retention");
    }

    @Override
    public void close() {
    }
}
