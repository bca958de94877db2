// What Java's consumer sees, a line for each record: partition, offset, kind of time, time, key, value, headers.
// Arguments: "all", bootstrap servers, isolation level, topic; or
// "group", bootstrap servers, protocol (classic or consumer), group, topic, how many records are wanted, and the most
// seconds between the assignment and the last of them. A group has to stand somewhere, and commits what it has read.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Reader {
    public static void main(String[] args) {
        if (args[0].equals("all")) {
            readAll(args[1], args[2], args[3]);
        } else {
            readOn(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]), Double.parseDouble(args[6]));
        }
    }

    private static void readAll(String servers, String isolation, String topic) {
        try (KafkaConsumer<byte[], byte[]> consumer = open(Map.of("bootstrap.servers", servers, "isolation.level", isolation))) {
            List<TopicPartition> all = consumer.partitionsFor(topic).stream()
                .map(one -> new TopicPartition(topic, one.partition())).collect(Collectors.toList());
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                consumer.poll(Duration.ofMillis(100)).forEach(Reader::print);
            }
        }
    }

    private static void readOn(String servers, String protocol, String group, String topic, int wanted, double secondsMax) {
        long[] assigned = {0};
        Map<String, Object> props = Map.of("bootstrap.servers", servers, "group.id", group, "group.protocol", protocol,
            "auto.offset.reset", "none", "enable.auto.commit", "false", "max.poll.records", "" + wanted);
        try (KafkaConsumer<byte[], byte[]> consumer = open(props)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsAssigned(Collection<TopicPartition> some) {
                    assigned[0] = some.isEmpty() ? 0 : System.nanoTime();
                }

                public void onPartitionsRevoked(Collection<TopicPartition> some) {}
            });
            int found = 0;
            while (found < wanted && (assigned[0] == 0 || secondsSince(assigned[0]) < secondsMax)) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    print(record);
                    found++;
                }
            }
            System.err.printf("%d records, %.3f s after the assignment%n", found, secondsSince(assigned[0]));
            consumer.commitSync();
        }
    }

    private static double secondsSince(long nanos) {
        return (System.nanoTime() - nanos) / 1e9;
    }

    private static KafkaConsumer<byte[], byte[]> open(Map<String, Object> props) {
        return new KafkaConsumer<>(new HashMap<>(props), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        String headers = StreamSupport.stream(record.headers().spliterator(), false)
            .map(one -> hex(one.key().getBytes()) + "=" + hex(one.value())).collect(Collectors.joining(","));
        System.out.println(String.join("\t", "" + record.partition(), "" + record.offset(),
            "" + (record.timestampType().id + 1), "" + record.timestamp(), hex(record.key()), hex(record.value()), headers));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes);
    }
}
