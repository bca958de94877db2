"""As much of Kubernetes' API as Spark uses, in this process: pods that Spark makes run as processes of this machine.

What a pod's container would run is deploy/container/entrypoint.sh with the pod's own arguments and environment
(`pretended_pods`).
"""

import json
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

from tests.faults.pretended_pods import LOOPBACK, NAMESPACE, start_pod

_END_SECONDS_MAX = 60
_LOOK_SECONDS = 0.2
_APPLY = "application/apply-patch+yaml"
_TIME = "2026-01-01T00:00:00Z"


class PretendedKubernetes:
    """A namespace; in a `with` block, which leaves no process behind. `made` are the pods as Spark asked for them,
    `requests` all that was asked, and `asked` what a role must allow for that, by the host that it was asked at: verb
    and resource. `statuses` are the exit statuses of pods that ended, by name."""

    def __init__(self, directory: Path, path: str) -> None:
        """Pods run in `directory` and find programs along `path`."""
        self._directory = directory
        self._path = path
        self._lock = threading.RLock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self._count = 0
        self.made: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.asked: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self.statuses: dict[str, int] = {}
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="kubernetes", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        for name in list(self._children):
            self.end(name)

    def url(self, host: str = LOOPBACK) -> str:
        return f"http://{host}:{self._server.server_address[1]}"

    @property
    def master(self) -> str:
        return f"k8s://{self.url()}"

    def create(self, kind: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """Also where there is one of the name: as `apply` does it."""
        with self._lock:
            made = json.loads(json.dumps(wanted))
            meta = made["metadata"]
            meta.setdefault("name", f"{meta.get('generateName', kind)}{self._count}")
            meta |= {"uid": f"uid-{self._count}", "namespace": NAMESPACE, "resourceVersion": "1"}
            meta["creationTimestamp"] = _TIME
            self._count += 1
            self._objects[f"{kind}/{meta['name']}"] = made
            if kind == "pods":
                self.made.append(wanted)
                made["status"] = {"phase": "Pending"}
            self._start_pods()
            return made

    def _start_pods(self) -> None:
        """All that have what they mount."""
        for key, pod in list(self._objects.items()):
            if key.startswith("pods/") and pod["status"]["phase"] == "Pending":
                child = start_pod(pod, self._objects, self._directory, self._path)
                if child is not None:
                    self._children[pod["metadata"]["name"]] = child
                    ready = [{"type": "Ready", "status": "True"}]
                    pod["status"] = {"phase": "Running", "podIP": LOOPBACK, "startTime": _TIME, "conditions": ready}

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        with self._lock:
            self._look_at_pods()
            return self._objects.get(f"{kind}/{name}")

    def list(self, kind: str, selector: str = "", name: str = "") -> list[dict[str, Any]]:
        with self._lock:
            self._look_at_pods()
            items = [made for key, made in self._objects.items() if key.startswith(f"{kind}/{name}")]
        return [made for made in items if _is_selected(made["metadata"].get("labels") or {}, selector)]

    def _look_at_pods(self) -> None:
        for name, child in list(self._children.items()):
            pod, status = self._objects.get(f"pods/{name}"), child.poll()
            if pod is not None and status is not None:
                self.statuses[name] = status
                pod["status"] = {**pod["status"], **_ended(pod, status)}

    def delete(self, kind: str, name: str) -> None:
        """What the object owns goes with it."""
        with self._lock:
            made = self._objects.pop(f"{kind}/{name}", None)
        if made is None:
            return
        if kind == "pods":
            self.end(name)
        for key, other in list(self._objects.items()):
            owners = other["metadata"].get("ownerReferences") or ()
            if any(one["uid"] == made["metadata"]["uid"] for one in owners):
                self.delete(*key.split("/"))

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
        self.statuses[name] = child.returncode

    def said(self) -> str:
        """What all pods have written."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self._directory.glob("pod-*.log")))


def _is_selected(labels: dict[str, str], selector: str) -> bool:
    """By equality, as Spark asks."""
    for term in filter(None, selector.split(",")):
        key, _, value = term.partition("=")
        is_equal = labels.get(key.rstrip("!=")) == value.lstrip("=")
        if is_equal == key.endswith("!"):
            return False
    return True


def _ended(pod: dict[str, Any], status: int) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    state = {"terminated": {"exitCode": status, "reason": "Error" if status else "Completed", "finishedAt": _TIME}}
    about = {"name": container["name"], "ready": False, "restartCount": 0, "image": container["image"], "imageID": ""}
    return {"phase": "Failed" if status else "Succeeded", "containerStatuses": [{**about, "state": state}]}


class _Handler(BaseHTTPRequestHandler):
    """Requests for /api/v1/namespaces/NAMESPACE/KIND and …/KIND/NAME."""

    cluster: ClassVar[PretendedKubernetes]
    protocol_version = "HTTP/1.1"

    def _target(self) -> tuple[str, str | None]:
        parts = urlsplit(self.path).path.strip("/").split("/")[4:]
        kind, name = (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else None)
        host = str(self.headers.get("Host")).partition(":")[0]
        self.cluster.asked[host].add((self._verb(name), kind))
        return kind, name

    def _query(self, key: str) -> str:
        return parse_qs(urlsplit(self.path).query).get(key, [""])[0]

    def _name(self) -> str:
        """The one object that a list or a watch is for, if so."""
        return self._query("fieldSelector").removeprefix("metadata.name=")

    def _verb(self, name: str | None) -> str:
        """As Kubernetes names it in roles."""
        if self.command == "GET":
            return "watch" if self._query("watch") else "list" if name is None else "get"
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
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.cluster.requests.append(f"{self.command} {self.path}\n{data}")
        return dict(json.loads(data or "{}"))

    def do_GET(self) -> None:
        self._body()
        kind, name = self._target()
        if self._query("watch"):
            self._watch(kind)
        elif name is None:
            items = self.cluster.list(kind, self._query("labelSelector"), self._name())
            self._answer(
                200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
            )
        else:
            found = self.cluster.find(kind, name)
            self._answer(200 if found else 404, found or _status(404))

    def _watch(self, kind: str) -> None:
        """One object, over plain HTTP. Of others Spark asks again every so often; it polls besides."""
        name = self._name()
        if self.headers.get("Upgrade") or not name:
            self._answer(503 if name else 404, _status(503 if name else 404))  # a WebSocket is not spoken here
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in self._events(kind, name):
            data = json.dumps(event).encode() + b"\n"
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            except OSError:  # nobody watches any more
                return

    def _events(self, kind: str, name: str) -> Iterator[dict[str, Any]]:
        seen = ""
        while (found := self.cluster.find(kind, name)) is not None:
            now = json.dumps(found)
            if now != seen:
                yield {"type": "MODIFIED" if seen else "ADDED", "object": json.loads(now)}
            seen = now
            time.sleep(_LOOK_SECONDS)
        yield {"type": "DELETED", "object": json.loads(seen or "{}")}

    def do_POST(self) -> None:
        kind, _ = self._target()
        body = self._body()
        if self.cluster.find(kind, body["metadata"].get("name", "")):
            self._answer(409, _status(409))
        else:
            self._answer(201, self.cluster.create(kind, body))

    def do_PATCH(self) -> None:
        body = self._body()
        kind, name = self._target()
        found = self.cluster.find(kind, name or "")
        if str(self.headers.get("Content-Type")).startswith(_APPLY):
            self._answer(200, self.cluster.create(kind, body))
        else:
            self._answer(200 if found else 404, found or _status(404))

    do_PUT = do_PATCH

    def do_DELETE(self) -> None:
        self._body()
        kind, name = self._target()
        names = [name] if name is not None else [
            one["metadata"]["name"] for one in self.cluster.list(kind, self._query("labelSelector"))
        ]  # fmt: skip
        for one in names:
            self.cluster.delete(kind, one)
        self._answer(200, _status(200))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is what failed."""


def _status(code: int) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "status": "Success" if code < 300 else "Failure"}
