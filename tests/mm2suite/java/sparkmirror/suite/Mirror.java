package sparkmirror.suite;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** One process of SparkMirror with a properties file, started and ended as a user would. */
public final class Mirror {
    private static final AtomicInteger STARTED = new AtomicInteger();
    private static final Set<Mirror> RUNNING = ConcurrentHashMap.newKeySet();
    private static final long STOP_SECONDS_MAX = 90;
    private static final int LINES_TOLD = 6;

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> RUNNING.forEach(Mirror::stop)));
    }

    private final String title;
    private final List<String> clusters;
    private final int port = freePort();
    private final Path file;
    private final Path log;
    private int jmxPort;
    private Process process;

    /** `clusters` is what --clusters names; none for all. */
    public Mirror(String title, Map<String, String> settings, List<String> clusters) {
        String name = String.format("%03d-%s", STARTED.incrementAndGet(), title.replaceAll("\\W+", "-"));
        this.title = title;
        this.clusters = clusters;
        this.file = Settings.directory().resolve(name + ".properties");
        this.log = Settings.directory().resolve(name + ".log");
        write(settings);
    }

    private void write(Map<String, String> settings) {
        Properties lines = new Properties();
        lines.putAll(settings);
        lines.setProperty("status.listen", "localhost:" + port);  // for /readyz, /metrics and /api/config
        try (OutputStream out = Files.newOutputStream(file)) {
            lines.store(out, Suite.running());
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }

    /** Has the process serve its MBeans once it is started; the port. */
    public int serveBeans() {
        jmxPort = freePort();
        return jmxPort;
    }

    public synchronized void start() {
        List<String> command = new ArrayList<>(Settings.command());
        command.add(file.toString());
        if (!clusters.isEmpty()) {
            command.add("--clusters");
            command.addAll(clusters);
        }
        ProcessBuilder builder = new ProcessBuilder(command)
            .directory(Settings.directory().toFile())
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
        if (jmxPort != 0) {
            builder.environment().put("JMX_PORT", Integer.toString(jmxPort));
        }
        try {
            process = builder.start();
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
        RUNNING.add(this);
        Suite.note(title + " is process " + process.pid() + " with " + file.getFileName());
    }

    /** SIGTERM. One that does not end in time is killed, and the test fails. */
    public synchronized void stop() {
        RUNNING.remove(this);
        if (!isAlive()) {
            return;
        }
        long began = System.nanoTime();
        process.destroy();
        try {
            if (!process.waitFor(STOP_SECONDS_MAX, TimeUnit.SECONDS)) {
                process.descendants().forEach(ProcessHandle::destroyForcibly);
                process.destroyForcibly().waitFor();
                throw new MirrorEnded(title + " did not end within " + STOP_SECONDS_MAX + " s of SIGTERM" + lastWords());
            }
        } catch (InterruptedException problem) {
            Thread.currentThread().interrupt();
        }
        Suite.note(String.format("%s ended in %.1f s with status %d", title, (System.nanoTime() - began) / 1e9, process.exitValue()));
    }

    private boolean isAlive() {
        return process != null && process.isAlive();
    }

    /** Whether /readyz says that the query of each flow runs. Throws MirrorEnded when the process is gone. */
    public boolean isReady() {
        if (!isAlive()) {
            String status = process == null ? "before it was started" : "with status " + process.exitValue();
            throw new MirrorEnded(title + " ended by itself " + status + lastWords());
        }
        return "ok".equals(ask("/readyz").trim());
    }

    /** The body of an answer with status 200; "" for any other, and for none. */
    public String ask(String path) {
        try {
            HttpURLConnection call = (HttpURLConnection) URI.create("http://localhost:" + port + path).toURL().openConnection();
            call.setConnectTimeout(10_000);
            call.setReadTimeout(20_000);
            if (call.getResponseCode() != HttpURLConnection.HTTP_OK) {
                return "";
            }
            try (InputStream in = call.getInputStream()) {
                return new String(in.readAllBytes(), StandardCharsets.UTF_8);
            }
        } catch (IOException notYet) {
            return "";
        }
    }

    private String lastWords() {
        try {
            List<String> lines = Files.readAllLines(log);
            return "; it said: " + String.join(" | ", lines.subList(Math.max(0, lines.size() - LINES_TOLD), lines.size()));
        } catch (IOException problem) {
            return "; " + log + " cannot be read: " + problem;
        }
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }
}
