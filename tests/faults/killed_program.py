"""The command line of SparkMirror, killed where it writes its journal. Run by `test_failover_killed`.

killed_program.py before|after N ARGUMENT...: SIGKILL before or after the N-th entry of the journal is written
"""

import os
import signal
import sys
from itertools import count

from sparkmirror.cli.main import main
from sparkmirror.operations.journal import TopicJournal
from sparkmirror.operations.steps import Journal


def arm(place: str, number: int) -> None:
    """Entries are counted in this process, from 1 on."""
    save, numbers = TopicJournal.save, count(1)

    def save_or_die(self: TopicJournal, journal: Journal) -> None:
        is_last = next(numbers) == number
        if place == "after" or not is_last:
            save(self, journal)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)

    TopicJournal.save = save_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    arm(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
