package sparkmirror.suite;

/** The mirror's process ended by itself. An Error, which Kafka's waitForCondition does not take for "not yet". */
public final class MirrorEnded extends Error {
    public MirrorEnded(String message) {
        super(message);
    }
}
