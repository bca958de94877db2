package org.apache.kafka.connect.util.clusters;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.AbstractStatus.State;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorOffsets;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo;
import org.apache.kafka.connect.runtime.rest.errors.ConnectRestException;
import sparkmirror.suite.ConnectorFile;
import sparkmirror.suite.Mirror;
import sparkmirror.suite.ReportedMetrics;
import sparkmirror.suite.States;
import sparkmirror.suite.StoredOffsets;
import sparkmirror.suite.Suite;
import sparkmirror.suite.Unmapped;

/**
 * In the place of the embedded Connect cluster: Kafka's embedded broker stays, and one process of SparkMirror stands for
 * the workers. It is started, with the file that does what the connectors are configured to do, when a test first asks
 * for their state. What only a Connect worker has is Unmapped.
 */
public class EmbeddedConnectCluster extends EmbeddedConnect {
    private static final Map<String, Integer> WORKER_TOPICS =
        Map.of("offset.storage.topic", 25, "status.storage.topic", 5, "config.storage.topic", 1);

    private final Map<String, String> workerProps;
    private final String name;
    private final Map<String, Map<String, String>> connectors = new LinkedHashMap<>();
    private final Map<String, State> wanted = new HashMap<>();
    private final Set<String> restarted = new HashSet<>();
    private Map<String, String> file;
    private Mirror mirror;

    private EmbeddedConnectCluster(int numBrokers, Properties brokerProps, boolean maskExitProcedures,
                                   Map<String, String> clientProps, Map<String, String> workerProps, String name) {
        super(numBrokers, brokerProps, maskExitProcedures, clientProps);
        this.workerProps = workerProps;
        this.name = name;
    }

    /** The tests wait for the three topics that workers make, before there is any connector. */
    @Override
    public void startConnect() {
        List<NewTopic> topics = new ArrayList<>();
        WORKER_TOPICS.forEach((key, partitions) -> {
            if (workerProps.containsKey(key)) {
                topics.add(new NewTopic(workerProps.get(key), partitions, (short) numBrokers).configs(Map.of("cleanup.policy", "compact")));
            }
        });
        try (Admin admin = kafka().createAdminClient()) {
            admin.createTopics(topics).all().get();
        } catch (ExecutionException problem) {
            if (!(problem.getCause() instanceof TopicExistsException)) {
                throw new ConnectException(problem);
            }
        } catch (InterruptedException problem) {
            throw new ConnectException(problem);
        }
    }

    @Override
    public synchronized void stop() {
        try {
            end();
        } finally {
            super.stop();
        }
    }

    public String getName() {
        return name;
    }

    @Override
    public String toString() {
        return "SparkMirror in the place of " + name;
    }

    @Override
    public String endpointForResource(String resource) {
        return "none:" + resource;
    }

    @Override
    public Set<WorkerHandle> workers() {
        return Set.of();
    }

    public boolean anyWorkersHealthy() {
        return true;
    }

    public boolean allWorkersHealthy() {
        return true;
    }

    public WorkerHandle addWorker() {
        throw new Unmapped("a worker of Connect is added");
    }

    public void removeWorker() {
        throw new Unmapped("a worker of Connect is removed");
    }

    public void removeWorker(WorkerHandle worker) {
        throw new Unmapped("a worker of Connect is removed");
    }

    @Override
    public synchronized String configureConnector(String connector, Map<String, String> configuration) {
        if (!ConnectorFile.CONNECTORS.contains(connector)) {
            throw new Unmapped(connector + " is no connector of MirrorMaker");
        }
        connectors.put(connector, new TreeMap<>(configuration));
        wanted.put(connector, State.RUNNING);
        return "";
    }

    @Override
    public synchronized void deleteConnector(String connector) {
        require(connector);
        connectors.remove(connector);
        wanted.remove(connector);
        end();
    }

    @Override
    public synchronized void stopConnector(String connector) {
        require(connector);
        wanted.put(connector, State.STOPPED);
        if (connector.equals(ConnectorFile.SOURCE)) {
            end();
        }
    }

    @Override
    public void pauseConnector(String connector) {
        throw new Unmapped("a connector of Connect is paused");
    }

    @Override
    public synchronized void resumeConnector(String connector) {
        require(connector);
        wanted.put(connector, State.RUNNING);
    }

    @Override
    public void restartConnector(String connector) {
        restartConnectorAndTasks(connector, false, false, false);
    }

    /** The tests restart one connector after the other; the process, which does what all do, is restarted with the first. */
    @Override
    public synchronized ConnectorStateInfo restartConnectorAndTasks(String connector, boolean onlyFailed, boolean includeTasks, boolean empty) {
        require(connector);
        if (!restarted.remove(connector)) {
            restarted.addAll(connectors.keySet());
            restarted.remove(connector);
            end();
            begin();
        }
        return States.of(connector, State.RESTARTING, null);
    }

    @Override
    public synchronized Collection<String> connectors() {
        return List.copyOf(connectors.keySet());
    }

    @Override
    public synchronized ConnectorStateInfo connectorStatus(String connector) {
        require(connector);
        if (wanted.get(connector) != State.RUNNING) {
            return States.of(connector, wanted.get(connector), null);
        }
        if (wanted.get(ConnectorFile.SOURCE) == State.STOPPED) {
            throw new Unmapped("one connector runs while another is stopped; a process of ours does what all of them do");
        }
        begin();
        return States.of(connector, mirror);
    }

    private void require(String connector) {
        if (!connectors.containsKey(connector)) {
            throw new ConnectRestException(404, "No connector " + connector);
        }
    }

    /** Starts the process; one that runs with another file is ended first. */
    private void begin() {
        Map<String, Map<String, String>> running = new LinkedHashMap<>(connectors);
        running.keySet().removeIf(connector -> wanted.get(connector) != State.RUNNING);
        Map<String, String> lines = ConnectorFile.of(running, workerProps);
        if (mirror != null && lines.equals(file)) {
            return;
        }
        end();
        mirror = new Mirror(name, lines, List.of());
        file = lines;
        if (ReportedMetrics.isWanted(running.getOrDefault(ConnectorFile.SOURCE, Map.of()))) {
            ReportedMetrics.watch(mirror.serveBeans());
        }
        mirror.start();
    }

    private void end() {
        ReportedMetrics.end();
        if (mirror != null) {
            Mirror ending = mirror;
            mirror = null;
            ending.stop();
        }
    }

    @Override
    public synchronized ConnectorOffsets connectorOffsets(String connector) {
        return offsets(connector).read();
    }

    @Override
    public synchronized String alterConnectorOffsets(String connector, ConnectorOffsets altered) {
        requireStopped(connector);
        offsets(connector).alter(altered);
        return "";
    }

    @Override
    public synchronized String resetConnectorOffsets(String connector) {
        requireStopped(connector);
        offsets(connector).reset();
        return "";
    }

    private StoredOffsets offsets(String connector) {
        require(connector);
        return new StoredOffsets(kafka(), workerProps.get("offset.storage.topic"), connector);
    }

    private void requireStopped(String connector) {
        require(connector);
        if (wanted.get(connector) != State.STOPPED) {
            throw new ConnectRestException(400, connector + " must be stopped before its offsets are altered.");
        }
    }

    /** As the tests call it. */
    public static class Builder extends EmbeddedConnectBuilder<EmbeddedConnectCluster, Builder> {
        private String name = UUID.randomUUID().toString();

        public Builder name(String name) {
            this.name = name;
            return this;
        }

        public Builder numWorkers(int numWorkers) {
            return this;
        }

        @Override
        protected EmbeddedConnectCluster build(int numBrokers, Properties brokerProps, boolean maskExitProcedures,
                                               Map<String, String> clientProps, Map<String, String> workerProps) {
            if (Suite.running().contains("ProvidedForwardingAdmin")) {
                throw new Unmapped("looks into the memory of an Admin of its own (forwarding.admin.class) inside the worker");
            }
            return new EmbeddedConnectCluster(numBrokers, brokerProps, maskExitProcedures, clientProps, workerProps, name);
        }
    }
}
