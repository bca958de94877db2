"""An HTTP server on loopback for tests, from its making to the end of its `with` block."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LoopbackServer(ThreadingHTTPServer):
    """A context manager that serves in a thread of its own. A subclass sets what `handler` reads before it calls
    `__init__`."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def server_close(self) -> None:
        self.shutdown()
        self._thread.join()
        super().server_close()
