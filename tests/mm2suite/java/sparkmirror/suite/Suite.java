package sparkmirror.suite;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.LocalTime;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import sun.misc.Unsafe;

/**
 * Runs MirrorMaker's integration tests, which are named as `Class` or `Class.method`, one after the other. A line of JSON
 * on stdout for each that ended: test, outcome (passed, failed, unmapped), said, seconds.
 */
public final class Suite implements TestExecutionListener {
    private static final String PACKAGE = "org.apache.kafka.connect.mirror.integration.";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SAID_MAX = 900;
    private static final PrintStream RESULTS = System.out;

    private static volatile String running = "";

    private long began;

    public static void main(String[] names) throws Exception {
        System.setOut(System.err);  // what tests print is no result
        pollLonger();
        Suite suite = new Suite();
        for (String name : names) {
            LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request().selectors(selector(name)).build();
            LauncherFactory.create().execute(request, suite);
        }
        Runtime.getRuntime().exit(0);  // threads of brokers are left
    }

    private static DiscoverySelector selector(String name) {
        int dot = name.indexOf('.');
        return dot < 0 ? selectClass(PACKAGE + name)
            : selectMethod(PACKAGE + name.substring(0, dot) + "#" + name.substring(dot + 1));
    }

    /** The tests poll once for half a second and judge by what came: the one limit that is a constant of theirs. */
    private static void pollLonger() throws ReflectiveOperationException {
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        Unsafe unsafe = (Unsafe) theUnsafe.get(null);
        Class<?> tests = Class.forName(PACKAGE + "MirrorConnectorsIntegrationBaseTest");
        Field limit = tests.getDeclaredField("CONSUMER_POLL_TIMEOUT");
        limit.setAccessible(true);
        Duration longer = ((Duration) limit.get(null)).multipliedBy(Settings.patience());
        unsafe.putObject(unsafe.staticFieldBase(limit), unsafe.staticFieldOffset(limit), longer);
    }

    /** The test that runs, as `Class.method`. */
    public static String running() {
        return running;
    }

    /** A line with its time in notes.log, to look into a failure by. */
    public static void note(String line) {
        append(LocalTime.now().withNano(0) + " " + running + ": " + line + "\n");
    }

    private static synchronized void append(String text) {
        try {
            Files.writeString(Settings.directory().resolve("notes.log"), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.isTest()) {
            running = name(test);
            began = System.nanoTime();
            Unmapped.take();
            note("begins");
        }
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Throwable problem = result.getThrowable().orElse(null);
        if (!test.isTest()) {
            if (problem != null) {
                tell(name(test), "failed", said(problem), 0);
            }
            return;
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        String unmapped = Unmapped.take();
        if (unmapped != null) {
            tell(running, "unmapped", unmapped, seconds);
        } else if (problem == null) {
            tell(running, "passed", "", seconds);
        } else {
            trace(problem);
            tell(running, "failed", said(problem), seconds);
        }
    }

    private static void tell(String test, String outcome, String said, double seconds) {
        note(outcome);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("test", test);
        line.put("outcome", outcome);
        line.put("said", said);
        line.put("seconds", Math.round(seconds));
        try {
            RESULTS.println(JSON.writeValueAsString(line));
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
        if (RESULTS.checkError()) {
            Runtime.getRuntime().exit(1);  // nobody reads any more
        }
    }

    private static void trace(Throwable problem) {
        java.io.StringWriter text = new java.io.StringWriter();
        problem.printStackTrace(new java.io.PrintWriter(text, true));
        append(text.toString());
    }

    /** An inherited test is named by the class that was asked for. */
    private static String name(TestIdentifier test) {
        String id = test.getUniqueId();
        int at = id.indexOf("[class:");
        if (at < 0) {
            return test.getDisplayName();
        }
        String owner = id.substring(id.lastIndexOf('.', id.indexOf(']', at)) + 1, id.indexOf(']', at));
        return test.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast)
            .map(source -> owner + "." + source.getMethodName()).orElse(owner);
    }

    private static String said(Throwable problem) {
        StringBuilder text = new StringBuilder();
        for (Throwable at = problem; at != null && text.length() < SAID_MAX; at = at.getCause() == at ? null : at.getCause()) {
            text.append(text.length() > 0 ? " <- " : "");
            text.append(at.getClass().getSimpleName()).append(": ").append(String.valueOf(at.getMessage()).replaceAll("\\s+", " "));
        }
        return text.length() > SAID_MAX ? text.substring(0, SAID_MAX) + "…" : text.toString();
    }
}
