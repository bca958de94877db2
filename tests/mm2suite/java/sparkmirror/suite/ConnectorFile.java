package sparkmirror.suite;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The properties file of a mirror that does what connectors of MirrorMaker with these configurations do. Pure. */
public final class ConnectorFile {
    public static final String SOURCE = "MirrorSourceConnector";
    public static final String CHECKPOINT = "MirrorCheckpointConnector";
    public static final String HEARTBEAT = "MirrorHeartbeatConnector";
    public static final Set<String> CONNECTORS = Set.of(SOURCE, CHECKPOINT, HEARTBEAT);

    // The first four say which connector it is. A forwarding admin is a class for Connect's JVM, and is refused here.
    private static final Set<String> LEFT_OUT =
        Set.of("name", "connector.class", "source.cluster.alias", "target.cluster.alias", "forwarding.admin.class");

    private final Map<String, String> lines = new TreeMap<>();
    private final String source;
    private final String target;

    private ConnectorFile(Map<String, String> any) {
        source = any.get("source.cluster.alias");
        target = any.get("target.cluster.alias");
    }

    /** `connectors` by their name, one at least; `worker` is the Connect worker's configuration. */
    public static Map<String, String> of(Map<String, Map<String, String>> connectors, Map<String, String> worker) {
        ConnectorFile file = new ConnectorFile(connectors.values().iterator().next());
        file.lines.put("clusters", file.source + ", " + file.target);
        connectors.values().forEach(configuration -> configuration.forEach(file::put));
        file.switchOff(connectors.keySet());
        worker.forEach((key, value) -> {
            if (key.startsWith("offset.storage.")) {
                file.lines.put(file.target + "." + key, value);
            }
        });
        return file.lines;
    }

    private void put(String key, String value) {
        if (!LEFT_OUT.contains(key)) {
            lines.put(line(key), value);
        }
    }

    private String line(String key) {
        if (key.startsWith("source.cluster.")) {
            return source + key.substring("source.cluster".length());
        }
        if (key.startsWith("target.cluster.")) {
            return target + key.substring("target.cluster".length());
        }
        if (key.matches("source\\.(consumer|producer|admin)\\..*")) {
            return source + key.substring("source".length());
        }
        if (key.matches("target\\.(consumer|producer|admin)\\..*")) {
            return target + key.substring("target".length());
        }
        return flow() + key;
    }

    /** What no connector does is not done; in a file everything is on unless it is switched off. */
    private void switchOff(Set<String> connectors) {
        String back = target + "->" + source + ".";
        lines.put(back + "enabled", "false");
        lines.put(back + "emit.heartbeats.enabled", "false");
        if (!connectors.contains(SOURCE)) {
            lines.put(flow() + "enabled", "false");
        }
        if (!connectors.contains(CHECKPOINT)) {
            lines.put(flow() + "emit.checkpoints.enabled", "false");
            lines.put(flow() + "sync.group.offsets.enabled", "false");
        }
        if (!connectors.contains(HEARTBEAT)) {
            lines.put(flow() + "emit.heartbeats.enabled", "false");
        }
    }

    private String flow() {
        return source + "->" + target + ".";
    }
}
