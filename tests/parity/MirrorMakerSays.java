import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.MirrorCheckpointConfig;
import org.apache.kafka.connect.mirror.MirrorHeartbeatConfig;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * What the real MirrorMaker 2 knows and computes, as JSON. Run by tests/parity/mirror_maker.py as a single-file program.
 *
 * `keys`: every ConfigDef. `flows TOPIC,TOPIC… FILE…`: what each file means.
 */
public class MirrorMakerSays {
    private static final Plugins PLUGINS = new Plugins(Map.of("plugin.discovery", "service_load"));
    private static final String MIRROR = "org.apache.kafka.connect.mirror.";

    public static void main(String[] args) throws Exception {
        Object answer = args[0].equals("keys") ? keys() : files(args);
        new ObjectMapper().writeValue(System.out, answer);
    }

    private static Map<String, Object> keys() throws Exception {
        Map<String, Object> sets = new LinkedHashMap<>();
        sets.put("file", names(staticMethod(MIRROR + "MirrorMakerConfig", "config")));
        for (String name : List.of("MirrorSourceConfig", "MirrorCheckpointConfig", "MirrorHeartbeatConfig")) {
            sets.put(name, names(staticField(MIRROR + name, "CONNECTOR_CONFIG_DEF")));
        }
        for (String name : List.of("TopicFilter", "GroupFilter", "ConfigPropertyFilter")) {
            sets.put(name, names(staticField(MIRROR + "Default" + name + "$" + name + "Config", "DEF")));
        }
        String runtime = "org.apache.kafka.connect.runtime.";
        sets.put("source", names(staticMethod(runtime + "SourceConnectorConfig", "configDef")));
        Class<?> crypto = Class.forName(runtime + "distributed.Crypto");
        Method worker = DistributedConfig.class.getDeclaredMethod("config", crypto);
        worker.setAccessible(true);
        sets.put("worker", names((ConfigDef) worker.invoke(null, crypto.getField("SYSTEM").get(null))));
        String clients = "org.apache.kafka.clients.";
        sets.put("consumer", names(staticMethod(clients + "consumer.ConsumerConfig", "configDef")));
        sets.put("producer", names(staticMethod(clients + "producer.ProducerConfig", "configDef")));
        sets.put("admin", names(staticMethod(clients + "admin.AdminClientConfig", "configDef")));
        sets.put("client", names(staticField(MIRROR + "MirrorClientConfig", "CONFIG_DEF")));
        return sets;
    }

    private static Map<String, String> names(ConfigDef definition) {
        Map<String, String> defaults = new TreeMap<>();
        definition.configKeys().forEach((name, key) ->
            defaults.put(name, key.hasDefault() ? String.valueOf(key.defaultValue) : "required"));
        return defaults;
    }

    private static List<Object> files(String[] args) throws Exception {
        List<String> topics = List.of(args[1].split(","));
        List<Object> answers = new ArrayList<>();
        for (int i = 2; i < args.length; i++) {
            try {
                answers.add(flows(args[i], topics));
            } catch (RuntimeException refused) {
                answers.add(Map.of("refused", String.valueOf(refused.getMessage())));
            }
        }
        return answers;
    }

    private static Map<String, Object> flows(String file, List<String> topics) throws Exception {
        Properties properties = new Properties();
        try (InputStream in = new FileInputStream(file)) {
            properties.load(in);
        }
        Map<String, String> lines = new HashMap<>();
        properties.forEach((key, value) -> lines.put((String) key, (String) value));
        lines.put("plugin.discovery", "service_load"); // reaches only the search for plugins, which takes long
        MirrorMakerConfig config = new MirrorMakerConfig(lines);
        Map<String, Object> flows = new TreeMap<>();
        for (SourceAndTarget pair : config.clusterPairs()) {
            try {
                flows.put(pair.toString(), flow(config, pair, topics));
            } catch (RuntimeException refused) {
                flows.put(pair.toString(), Map.of("enabled", false, "refused", String.valueOf(refused.getMessage())));
            }
        }
        return flows;
    }

    private static Map<String, Object> flow(MirrorMakerConfig config, SourceAndTarget pair, List<String> topics)
            throws Exception {
        Map<String, String> connector = resolved(config, config.connectorBaseConfig(pair, MirrorSourceConnector.class));
        MirrorSourceConfig source = new MirrorSourceConfig(connector);
        Map<String, Object> answer = new TreeMap<>();
        answer.put("enabled", call(source, "enabled"));
        if (!answer.get("enabled").equals(true)) {
            return answer;
        }
        DistributedConfig worker = new DistributedConfig(config.workerConfig(pair));
        answer.put("values", text(source.values()));
        answer.put("checkpoint", text(new MirrorCheckpointConfig(checkpoint(config, pair)).values()));
        answer.put("heartbeat", text(new MirrorHeartbeatConfig(heartbeat(config, pair)).values()));
        answer.put("worker", text(worker.values()));
        answer.put("consumer", text(asMap(call(source, "sourceConsumerConfig", "replication-consumer"))));
        answer.put("source_admin", text(asMap(call(source, "sourceAdminConfig", "role"))));
        answer.put("target_admin", text(asMap(call(source, "targetAdminConfig", "role"))));
        answer.put("producer", text(producer(worker, connector)));
        answer.put("topics", remoteTopics(source, pair, topics));
        answer.put("offset_syncs_topic", call(source, "offsetSyncsTopic"));
        answer.put("checkpoints_topic", call(source, "checkpointsTopic"));
        return answer;
    }

    private static Map<String, String> checkpoint(MirrorMakerConfig config, SourceAndTarget pair) throws Exception {
        return resolved(config, config.connectorBaseConfig(pair, Class.forName(MIRROR + "MirrorCheckpointConnector")));
    }

    private static Map<String, String> heartbeat(MirrorMakerConfig config, SourceAndTarget pair) throws Exception {
        return resolved(config, config.connectorBaseConfig(pair, Class.forName(MIRROR + "MirrorHeartbeatConnector")));
    }

    /** The worker resolves a connector's references to config providers when it starts it. */
    @SuppressWarnings("unchecked")
    private static Map<String, String> resolved(MirrorMakerConfig config, Map<String, String> connector)
            throws Exception {
        Method transform = MirrorMakerConfig.class.getDeclaredMethod("transform", Map.class);
        transform.setAccessible(true);
        return (Map<String, String>) transform.invoke(config, connector);
    }

    private static Map<String, Object> producer(WorkerConfig worker, Map<String, String> connector)
            throws Exception {
        ConnectorConfig connectorConfig = new SourceConnectorConfig(PLUGINS, connector, false);
        Class<?> type = Class.forName("org.apache.kafka.connect.runtime.Worker");
        Method base = type.getDeclaredMethod("baseProducerConfigs", String.class, String.class, WorkerConfig.class,
            ConnectorConfig.class, Class.class, ConnectorClientConfigOverridePolicy.class, String.class);
        base.setAccessible(true);
        return asMap(base.invoke(null, "MirrorSourceConnector", "id", worker, connectorConfig,
            MirrorSourceConnector.class, new AllConnectorClientConfigOverridePolicy(), "cluster"));
    }

    private static Map<String, String> remoteTopics(MirrorSourceConfig source, SourceAndTarget pair, List<String> topics)
            throws Exception {
        ReplicationPolicy policy = (ReplicationPolicy) call(source, "replicationPolicy");
        Constructor<MirrorSourceConnector> constructor = MirrorSourceConnector.class.getDeclaredConstructor(
            SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class, boolean.class);
        constructor.setAccessible(true);
        MirrorSourceConnector connector = constructor.newInstance(pair, policy, call(source, "topicFilter"),
            call(source, "configPropertyFilter"), (boolean) call(source, "heartbeatsReplicationEnabled"));
        Map<String, String> remote = new TreeMap<>();
        for (String topic : topics) {
            if ((boolean) call(connector, "shouldReplicateTopic", topic)) {
                remote.put(topic, policy.formatRemoteTopic(pair.source(), topic));
            }
        }
        return remote;
    }

    private static Object call(Object target, String name, String... arguments) throws Exception {
        Class<?>[] types = arguments.length == 0 ? new Class<?>[0] : new Class<?>[] {String.class};
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Method method = type.getDeclaredMethod(name, types);
                method.setAccessible(true);
                return method.invoke(target, (Object[]) arguments);
            } catch (NoSuchMethodException inherited) {
                continue;
            } catch (InvocationTargetException failed) {
                throw new IllegalStateException(failed.getCause());
            }
        }
        throw new NoSuchMethodException(name);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> asMap(Object value) {
        return (Map<String, Object>) value;
    }

    private static Map<String, String> text(Map<String, ?> values) {
        Map<String, String> written = new TreeMap<>();
        values.forEach((key, value) -> written.put(key, write(value)));
        return written;
    }

    private static String write(Object value) {
        if (value instanceof Class<?> type) {
            return type.getName();
        }
        if (value instanceof List<?> list) {
            return String.join(",", list.stream().map(MirrorMakerSays::write).toList());
        }
        if (value instanceof org.apache.kafka.common.config.types.Password password) {
            return password.value();
        }
        return String.valueOf(value);
    }

    private static ConfigDef staticField(String type, String name) throws Exception {
        Field field = Class.forName(type).getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static ConfigDef staticMethod(String type, String name) throws Exception {
        Method method = Class.forName(type).getDeclaredMethod(name);
        method.setAccessible(true);
        return (ConfigDef) method.invoke(null);
    }
}
