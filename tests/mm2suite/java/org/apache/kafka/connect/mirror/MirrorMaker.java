package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.AbstractStatus.State;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo;
import org.apache.kafka.connect.runtime.rest.entities.TaskInfo;
import org.apache.kafka.connect.util.Callback;
import org.apache.kafka.connect.util.ConnectorTaskId;
import sparkmirror.suite.Mirror;
import sparkmirror.suite.MirrorEnded;
import sparkmirror.suite.States;
import sparkmirror.suite.Suite;

/** In the place of MirrorMaker in dedicated mode: its file goes to a process of SparkMirror. */
public class MirrorMaker {
    public static final List<Class<?>> CONNECTOR_CLASSES =
        List.of(MirrorSourceConnector.class, MirrorHeartbeatConnector.class, MirrorCheckpointConnector.class);

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Mirror mirror;

    public MirrorMaker(Map<String, String> props, List<String> clusters, Time time) {
        mirror = new Mirror("dedicated", props, clusters == null ? List.of() : clusters);
    }

    public MirrorMaker(Map<String, String> props, List<String> clusters) {
        this(props, clusters, Time.SYSTEM);
    }

    public MirrorMaker(Map<String, String> props) {
        this(props, null, Time.SYSTEM);
    }

    public void start() {
        mirror.start();
    }

    public void stop() {
        mirror.stop();
    }

    public void awaitStop() {
        mirror.stop();
    }

    /** FAILED with its last lines when the process is gone. */
    public ConnectorStateInfo connectorStatus(SourceAndTarget flow, String connector) {
        try {
            return States.of(connector, mirror);
        } catch (MirrorEnded gone) {
            Suite.note(gone.getMessage());
            return States.of(connector, State.FAILED, gone.getMessage());
        }
    }

    /** One task, with the values that /api/config of the process has for the flow. */
    public void taskConfigs(SourceAndTarget flow, String connector, Callback<List<TaskInfo>> callback) {
        Map<String, String> configuration = new HashMap<>();
        try {
            JsonNode settings = JSON.readTree(mirror.ask("/api/config")).path("settings");
            for (JsonNode setting : settings.path(flow.source() + "->" + flow.target())) {
                configuration.put(setting.path("key").asText(), setting.path("value").asText());
            }
        } catch (IOException problem) {
            callback.onCompletion(problem, null);
            return;
        }
        callback.onCompletion(null, List.of(new TaskInfo(new ConnectorTaskId(connector, 0), configuration)));
    }
}
