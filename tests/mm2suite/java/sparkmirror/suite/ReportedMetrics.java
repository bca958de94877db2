package sparkmirror.suite;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;

/**
 * What a test's MetricsReporter would see inside a Connect worker, from the MBeans of the process: Kafka's JmxReporter
 * makes an MBean of a metric's group and tags, and an attribute of its name.
 */
public final class ReportedMetrics {
    private static final String REPORTER =
        "org.apache.kafka.connect.mirror.integration.MirrorConnectorsIntegrationBaseTest$CollectAllMetricsReporter";
    private static final String[] DOMAINS = {"kafka.connect.mirror:*", "kafka.connect:*"};
    private static final long LOOK_MS = 2000;

    private static Thread watcher;

    private ReportedMetrics() {
    }

    /** Whether the connector's configuration names the tests' reporter. */
    public static boolean isWanted(Map<String, String> connector) {
        return REPORTER.equals(connector.get("metric.reporters"));
    }

    /** Fills the reporter's map with what the process tells at its JMX port, until `end`. */
    public static synchronized void watch(int port) {
        Map<MetricName, KafkaMetric> reported = reported();
        reported.clear();  // those of the test before
        watcher = new Thread(() -> look(port, reported), "reported-metrics");
        watcher.setDaemon(true);
        watcher.start();
    }

    public static synchronized void end() {
        if (watcher != null) {
            watcher.interrupt();
            watcher = null;
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<MetricName, KafkaMetric> reported() {
        try {
            return (Map<MetricName, KafkaMetric>) Class.forName(REPORTER).getField("METRICS").get(null);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static void look(int port, Map<MetricName, KafkaMetric> reported) {
        String address = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi";
        try {
            while (true) {
                try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
                    take(connector.getMBeanServerConnection(), reported);
                } catch (IOException | JMException notYet) {
                    Suite.note("JMX port " + port + ": " + notYet);
                }
                Thread.sleep(LOOK_MS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void take(MBeanServerConnection server, Map<MetricName, KafkaMetric> reported) throws IOException, JMException {
        for (String domain : DOMAINS) {
            for (ObjectName bean : server.queryNames(new ObjectName(domain), null)) {
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(bean).getAttributes()) {
                    reported.putIfAbsent(new MetricName(attribute.getName(), bean.getKeyProperty("type"), "", tags(bean)), null);
                }
            }
        }
    }

    private static Map<String, String> tags(ObjectName bean) {
        Map<String, String> tags = new LinkedHashMap<>();
        bean.getKeyPropertyList().forEach((key, value) -> {
            if (!key.equals("type")) {
                tags.put(key, value.startsWith("\"") ? ObjectName.unquote(value) : value);
            }
        });
        return tags;
    }
}
