package sparkmirror.suite;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;

/**
 * What a test's MetricsReporter would see inside a Connect worker, from /metrics of the process: the same names, with the
 * labels there as their tags.
 */
public final class ReportedMetrics {
    private static final String REPORTER =
        "org.apache.kafka.connect.mirror.integration.MirrorConnectorsIntegrationBaseTest$CollectAllMetricsReporter";
    private static final Pattern LINE =
        Pattern.compile("kafka_connect_mirror_mirror(source|checkpoint)connector_(\\w+)\\{(.*)} .*");
    private static final Pattern LABEL = Pattern.compile("(\\w+)=\"((?:[^\"\\\\]|\\\\.)*)\"");
    private static final Map<String, String> GROUPS =
        Map.of("source", "MirrorSourceConnector", "checkpoint", "MirrorCheckpointConnector");
    private static final long LOOK_MS = 2000;

    private static Thread watcher;

    private ReportedMetrics() {
    }

    /** Watches where the connector's configuration names the tests' reporter. */
    public static synchronized void watch(Map<String, String> connector, Mirror mirror) {
        if (!REPORTER.equals(connector.get("metric.reporters"))) {
            return;
        }
        Map<MetricName, KafkaMetric> reported = reported();
        reported.clear();  // those of the test before
        watcher = new Thread(() -> look(mirror, reported), "reported-metrics");
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

    private static void look(Mirror mirror, Map<MetricName, KafkaMetric> reported) {
        try {
            while (true) {
                mirror.ask("/metrics").lines().map(LINE::matcher).filter(Matcher::matches)
                    .forEach(line -> reported.putIfAbsent(name(line), null));
                Thread.sleep(LOOK_MS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static MetricName name(Matcher line) {
        Map<String, String> tags = new LinkedHashMap<>();
        Matcher label = LABEL.matcher(line.group(3));
        while (label.find()) {
            tags.put(label.group(1), label.group(2));
        }
        return new MetricName(line.group(2).replace('_', '-'), GROUPS.get(line.group(1)), "", tags);
    }
}
