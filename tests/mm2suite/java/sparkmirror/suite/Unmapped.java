package sparkmirror.suite;

import org.opentest4j.TestAbortedException;

/** A test asks a Connect worker for something that only a worker has: there is nothing here to ask instead. */
public final class Unmapped extends TestAbortedException {
    private static volatile String last;

    public Unmapped(String reason) {
        super(reason);
        last = reason;
    }

    /** Why the test that has just ended is unmapped, also where it caught the exception; null when it is mapped. */
    static String take() {
        String reason = last;
        last = null;
        return reason;
    }
}
