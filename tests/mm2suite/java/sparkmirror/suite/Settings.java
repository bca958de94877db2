package sparkmirror.suite;

import java.nio.file.Path;
import java.util.List;

/** What tests/mm2suite/run.py tells this JVM, as system properties. */
public final class Settings {
    private Settings() {
    }

    /** The command that stands in for connect-mirror-maker.sh; the file's name follows. */
    public static List<String> command() {
        return List.of(System.getProperty("suite.command").split("\n"));
    }

    /** Where files, logs and notes of a run lie. */
    public static Path directory() {
        return Path.of(System.getProperty("suite.directory"));
    }

    /** By how much the tests' time limits are multiplied, 1 to 3. */
    public static int patience() {
        return Integer.getInteger("suite.patience", 1);
    }
}
