"""A page's server in a process of its own, which may open 1,024 files: what `test_starving` throws itself at.

Its readiness never comes, as of a cluster that does not answer. Says the ports of the page and of the probes on
stdout; ends with its stdin. `python -m tests.unit.web.crowded_server [PEM file of key and certificate]`
"""

import resource
import sys
import threading
import time
from typing import Any

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.kafka.security.tls import Store, TlsSettings
from sparkmirror.web.api import PageRequests
from sparkmirror.web.health import Health
from sparkmirror.web.page_state import PageState
from sparkmirror.web.server import PageServer, ProbesServer

FLOW = "A->B"
ROWS = 2000
FILES_MAX = 1024


def change_for_ever(page_state: PageState) -> None:
    for second in range(1 << 30):
        page_state.replace_rows(f"partitions/{FLOW}", {at: (f"t{at}", at, second) for at in range(ROWS)})
        time.sleep(1)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    page_state, ended = PageState(), threading.Event()
    threading.Thread(target=change_for_ever, args=(page_state,), daemon=True).start()

    def readiness(_: str) -> Any:
        ended.wait()

    desk = PageRequests(page_state, (FLOW,), lambda *_: {}, dict, {"readiness": readiness}, lambda _: None)
    health = Health()
    health.beat()
    anywhere = Address("127.0.0.1", 0)
    tls = TlsSettings(key=Store(sys.argv[1])) if len(sys.argv) > 1 else None
    settings = StatusSettings(anywhere, probes_listen=anywhere, tls=tls)
    with PageServer(settings, health, {}, desk).start() as page, ProbesServer(settings, health).start() as probes:
        print(page.address.port, probes.address.port, flush=True)
        sys.stdin.read()
        ended.set()


if __name__ == "__main__":
    main()
