"""As much of Kubernetes' API as Spark uses, in this process: pods that Spark makes run as processes of this machine.

What a pod's container would run is deploy/container/entrypoint.sh with the pod's own arguments and environment.
"""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

ENTRYPOINT = Path(__file__).parents[2] / "deploy" / "container" / "entrypoint.sh"
_FIELDS = {"status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1"}
_END_SECONDS_MAX = 20


class PretendedKubernetes:
    """A namespace; in a `with` block, which leaves no process behind. `made` are the pods as Spark asked for them, and
    `asked` what a role must allow for that: verb and resource."""

    def __init__(self, directory: Path, path: str) -> None:
        """Pods run in `directory` and find programs along `path`."""
        self._directory = directory
        self._path = path
        self._lock = threading.Lock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self.made: list[dict[str, Any]] = []
        self.asked: set[tuple[str, str]] = set()
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="kubernetes", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        for name in list(self._children):
            self.end(name)

    @property
    def master(self) -> str:
        return f"k8s://http://127.0.0.1:{self._server.server_address[1]}"

    def create(self, kind: str, wanted: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            made = json.loads(json.dumps(wanted))
            meta = made["metadata"]
            meta.setdefault("name", f"{meta.get('generateName', kind)}{len(self._objects)}")
            meta |= {"uid": f"uid-{len(self._objects)}", "namespace": "mirrors", "resourceVersion": "1"}
            meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
            self._objects[f"{kind}/{meta['name']}"] = made
            if kind == "pods":
                self.made.append(wanted)
                self._children[meta["name"]] = self._start(made)
                made["status"] = {"phase": "Running", "podIP": "127.0.0.1", "startTime": "2026-01-01T00:00:00Z"}
            return made

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        return self._objects.get(f"{kind}/{name}")

    def list(self, kind: str) -> dict[str, Any]:
        with self._lock:
            items = [made for key, made in self._objects.items() if key.startswith(f"{kind}/")]
        return {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}

    def delete(self, kind: str, name: str | None) -> None:
        keys = [key for key in list(self._objects) if key == f"{kind}/{name}" or (name is None and kind in key)]
        for key in keys:
            self._objects.pop(key, None)
            if kind == "pods":
                self.end(key.partition("/")[2])

    def end(self, name: str) -> None:
        """As Kubernetes ends a pod: asked first, then killed."""
        child = self._children.pop(name, None)
        if child is None:
            return
        child.terminate()
        try:
            child.wait(_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def said(self) -> str:
        """What all pods have written."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self._directory.glob("pod-*.log")))

    def _start(self, pod: dict[str, Any]) -> subprocess.Popen[bytes]:
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        environment = {**os.environ, **{one["name"]: _value(one, name) for one in container["env"]}}
        environment |= {"PATH": self._path, "SPARK_LOCAL_DIRS": str(self._directory / name)}
        with (self._directory / f"pod-{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(ENTRYPOINT), *container["args"]],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._directory, env=environment,
                start_new_session=True,
            )  # fmt: skip


def _value(variable: dict[str, Any], pod: str) -> str:
    source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return str(variable.get("value", "")) if source is None else _FIELDS.get(source, pod)


class _Handler(BaseHTTPRequestHandler):
    """Requests for /api/v1/namespaces/NAMESPACE/KIND and …/KIND/NAME."""

    cluster: ClassVar[PretendedKubernetes]
    protocol_version = "HTTP/1.1"

    def _target(self) -> tuple[str, str | None]:
        parts = urlsplit(self.path).path.strip("/").split("/")[4:]
        kind, name = (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else None)
        self.cluster.asked.add((self._verb(name), kind))
        return kind, name

    def _verb(self, name: str | None) -> str:
        """As Kubernetes names it in roles."""
        if self.command == "GET":
            is_watch = "watch" in parse_qs(urlsplit(self.path).query)
            return "watch" if is_watch else "list" if name is None else "get"
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
        return verbs.get(self.command, "deletecollection" if name is None else "delete")

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> dict[str, Any]:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return dict(json.loads(data or b"{}"))

    def do_GET(self) -> None:
        kind, name = self._target()
        if "watch" in parse_qs(urlsplit(self.path).query):
            self._answer(404, _status(404))  # Spark asks again every so often; it polls besides
        elif name is None:
            self._answer(200, self.cluster.list(kind))
        else:
            found = self.cluster.find(kind, name)
            self._answer(200 if found else 404, found or _status(404))

    def do_POST(self) -> None:
        self._answer(201, self.cluster.create(self._target()[0], self._body()))

    def do_PATCH(self) -> None:
        self._body()
        kind, name = self._target()
        found = self.cluster.find(kind, name or "")
        self._answer(200 if found else 404, found or _status(404))

    do_PUT = do_PATCH

    def do_DELETE(self) -> None:
        self._body()
        self.cluster.delete(*self._target())
        self._answer(200, _status(200))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is what failed."""


def _status(code: int) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "status": "Success" if code < 300 else "Failure"}
