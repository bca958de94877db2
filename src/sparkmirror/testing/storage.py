"""Formats the storage of KRaft nodes. Called by `kafka` and `warm_start`.

`StorageTool format` costs a JVM start a node. All it writes is meta.properties, which is four lines, and
bootstrap.checkpoint (feature levels and SCRAM users), which is the same for all nodes: it runs once.
"""

import base64
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.jars import KAFKA, JarSet, class_path
from sparkmirror.testing.layout import CONTROLLER, Node, Sasl, plan_listeners, plan_properties, render_properties
from sparkmirror.testing.process import JavaProgram

_PORTS_NEVER_OPENED = {"PLAINTEXT": 1, CONTROLLER: 2}
CHECKPOINT = "bootstrap.checkpoint"


def new_id() -> str:
    """A random id as Kafka writes it: 16 bytes in base64url without padding (class Uuid)."""
    while (text := base64.urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def bootstrap_records(
    scratch: Path, sasl: Sasl | None = None, features: Mapping[str, int] | None = None, jars: JarSet = KAFKA
) -> bytes:
    """Content of bootstrap.checkpoint: the release's feature levels with `features` over them, and a SCRAM user.

    Empty for releases before 3.3, which have no such file.

    Raises SparkMirrorError with StorageTool's words when it refuses.
    """
    node = Node(1, scratch / "data", _PORTS_NEVER_OPENED)
    properties = scratch / "format.properties"
    properties.write_text(render_properties(plan_properties(node, [node], plan_listeners(None, None))))
    arguments = ["format", "--cluster-id", new_id(), "--config", str(properties), *_extras(sasl, features or {})]
    tool = JavaProgram("Kafka's StorageTool", "kafka.tools.StorageTool", class_path(jars), arguments)
    done = subprocess.run(
        tool.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        raise SparkMirrorError(f"Kafka's StorageTool could not format storage: {done.stdout.strip()}")
    checkpoint = node.directory / CHECKPOINT
    return checkpoint.read_bytes() if checkpoint.exists() else b""


def format_node(node: Node, cluster_id: str, bootstrap: bytes) -> None:
    """Writes the files that `StorageTool format` would write to the node's data directory (class MetaProperties,
    version 1)."""
    node.directory.mkdir(parents=True)
    meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node.node_id), "directory.id": new_id()}
    (node.directory / "meta.properties").write_text(render_properties(meta))
    if bootstrap:
        (node.directory / CHECKPOINT).write_bytes(bootstrap)


def _extras(sasl: Sasl | None, features: Mapping[str, int]) -> Sequence[str]:
    extras = [word for name, level in features.items() for word in ("--feature", f"{name}={level}")]
    if sasl and sasl.is_scram:
        extras += ["--add-scram", f"{sasl.mechanism}=[name={sasl.user},password={sasl.password}]"]
    return extras
