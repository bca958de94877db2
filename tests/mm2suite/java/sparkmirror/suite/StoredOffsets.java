package sparkmirror.suite;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorOffset;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorOffsets;
import org.apache.kafka.connect.util.clusters.EmbeddedKafkaCluster;

/** A connector's offsets as Connect's REST shows and alters them: records of the worker's offsets topic. */
public final class StoredOffsets {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long READ_MS_MAX = 60_000;

    private final EmbeddedKafkaCluster cluster;
    private final String topic;
    private final String connector;

    public StoredOffsets(EmbeddedKafkaCluster cluster, String topic, String connector) {
        this.cluster = cluster;
        this.topic = topic;
        this.connector = connector;
    }

    public ConnectorOffsets read() {
        List<ConnectorOffset> offsets = new ArrayList<>();
        stored().forEach((partition, offset) -> offsets.add(new ConnectorOffset(partition, offset)));
        return new ConnectorOffsets(offsets);
    }

    public void alter(ConnectorOffsets offsets) {
        write(offsets.toMap());
    }

    /** A tombstone for each partition that has an offset. */
    public void reset() {
        Map<Map<String, ?>, Map<String, ?>> tombstones = new HashMap<>();
        stored().keySet().forEach(partition -> tombstones.put(partition, null));
        write(tombstones);
    }

    private Map<Map<String, Object>, Map<String, Object>> stored() {
        Map<Map<String, Object>, Map<String, Object>> found = new LinkedHashMap<>();
        try {
            Map<String, Object> committedOnly = Map.of("isolation.level", "read_committed");
            for (ConsumerRecord<byte[], byte[]> record : cluster.consumeAll(READ_MS_MAX, committedOnly, Map.of(), topic)) {
                take(record, found);
            }
        } catch (IOException | InterruptedException | ExecutionException | TimeoutException problem) {
            throw new ConnectException(problem);
        }
        return found;
    }

    private void take(ConsumerRecord<byte[], byte[]> record, Map<Map<String, Object>, Map<String, Object>> found) throws IOException {
        List<Object> key = JSON.readValue(record.key(), new TypeReference<>() { });
        if (!connector.equals(key.get(0))) {
            return;
        }
        Map<String, Object> partition = JSON.convertValue(key.get(1), new TypeReference<>() { });
        if (record.value() == null) {
            found.remove(partition);
        } else {
            found.put(partition, JSON.readValue(record.value(), new TypeReference<>() { }));
        }
    }

    /** As Connect's OffsetStorageWriter: JsonConverter without schemas, the key a list of connector and partition. */
    private void write(Map<Map<String, ?>, Map<String, ?>> offsets) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), false);
        try (Producer<byte[], byte[]> producer = cluster.createProducer(Map.of("acks", "all"))) {
            for (Map.Entry<Map<String, ?>, Map<String, ?>> entry : offsets.entrySet()) {
                byte[] key = converter.fromConnectData(connector, null, List.of(connector, longs(entry.getKey())));
                byte[] value = entry.getValue() == null
                    ? null : converter.fromConnectData(connector, null, longs(entry.getValue()));
                producer.send(new ProducerRecord<>(topic, key, value)).get();
            }
        } catch (InterruptedException | ExecutionException problem) {
            throw new ConnectException(problem);
        }
    }

    /** Connect's REST makes longs of whole numbers, in a HashMap of default size, whose order is that of a key's bytes. */
    private static Map<String, Object> longs(Map<String, ?> given) {
        Map<String, Object> made = new HashMap<>();
        given.forEach((key, value) -> made.put(key, value instanceof Integer whole ? Long.valueOf(whole) : value));
        return made;
    }
}
