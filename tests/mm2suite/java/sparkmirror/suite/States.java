package sparkmirror.suite;

import java.util.List;
import org.apache.kafka.connect.runtime.AbstractStatus.State;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo.ConnectorState;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorStateInfo.TaskState;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorType;

/** The state of a connector, as Connect would say what /readyz of the process says. */
public final class States {
    private static final String WORKER = "sparkmirror";

    private States() {
    }

    /** RUNNING, with a task that runs, or UNASSIGNED, with none. Throws MirrorEnded. */
    public static ConnectorStateInfo of(String connector, Mirror mirror) {
        return of(connector, mirror.isReady() ? State.RUNNING : State.UNASSIGNED, null);
    }

    public static ConnectorStateInfo of(String connector, State state, String trace) {
        List<TaskState> tasks = state == State.RUNNING
            ? List.of(new TaskState(0, state.toString(), WORKER, null, null)) : List.of();
        return new ConnectorStateInfo(connector, new ConnectorState(state.toString(), WORKER, trace, null), tasks, ConnectorType.SOURCE);
    }
}
