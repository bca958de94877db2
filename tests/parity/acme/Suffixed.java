package acme;

import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.connect.mirror.ReplicationPolicy;

/** `orders` of A becomes `orders_from_A`; the word between is configured. */
public class Suffixed implements ReplicationPolicy, Configurable {
    private String between = "unset";

    @Override
    public void configure(Map<String, ?> properties) {
        between = (String) properties.get("replication.policy.acme.between");
        if (between == null) {
            throw new IllegalArgumentException("replication.policy.acme.between is needed");
        }
    }

    @Override
    public String formatRemoteTopic(String source, String topic) {
        return topic + between + source;
    }

    @Override
    public String topicSource(String topic) {
        int at = topic.lastIndexOf(between);
        return at < 0 ? null : topic.substring(at + between.length());
    }

    @Override
    public String upstreamTopic(String topic) {
        int at = topic.lastIndexOf(between);
        return at < 0 ? null : topic.substring(0, at);
    }
}
