// What Java's client library and console formatters of MirrorMaker 2 make of a cluster, one JSON-free line each.
// Arguments: bootstrap servers of the target, source alias, group, bootstrap servers of the source, syncs topic.

import java.io.PrintStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.MessageFormatter;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;
import org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter;

public class Clients {
    public static void main(String[] args) throws Exception {
        String target = args[0], alias = args[1], group = args[2], source = args[3], syncs = args[4];
        Map<String, Object> props = Map.of("bootstrap.servers", target);
        System.out.println("hops " + RemoteClusterUtils.replicationHops(props, alias));
        System.out.println("heartbeats " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(props)));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(props)));
        System.out.println("upstream " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(props)));
        Duration wait = Duration.ofSeconds(20);
        System.out.println("offsets " + shown(RemoteClusterUtils.translateOffsets(props, alias, group, wait)));
        Pattern all = Pattern.compile(".*");
        System.out.println("groups " + new TreeSet<>(RemoteClusterUtils.translateOffsets(props, alias, all, wait).keySet()));
        try (MirrorClient client = new MirrorClient(props)) {
            System.out.println("remote " + new TreeSet<>(client.remoteTopics(alias)));
        }
        print(target, alias + ".checkpoints.internal", new CheckpointFormatter());
        print(target, "heartbeats", new HeartbeatFormatter());
        print(source, syncs, new OffsetSyncFormatter());
    }

    private static Map<String, String> shown(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, String> found = new TreeMap<>();
        offsets.forEach((where, offset) -> found.put(where.toString(), offset.offset() + "/" + offset.metadata()));
        return found;
    }

    private static void print(String servers, String topic, MessageFormatter formatter) {
        Properties props = new Properties();
        props.put("bootstrap.servers", servers);
        TopicPartition partition = new TopicPartition(topic, 0);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(props, bytes, bytes)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    formatter.writeTo(record, System.out);
                }
            }
        }
    }
}
