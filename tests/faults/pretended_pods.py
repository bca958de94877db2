"""A pod of the pretended Kubernetes: a process of this machine, which runs the entry point of the image.

It has no file system and no name service of its own: in its arguments, its environment and its mounted files, paths of
mounts and of the image, and names of services, are replaced by those of this machine.
"""

import base64
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

IMAGE = Path(__file__).parents[2] / "deploy" / "container"
NAMESPACE = "mirrors"
LOOPBACK = "127.0.0.1"
_FIELDS = {"status.podIP": LOOPBACK, "status.hostIP": LOOPBACK}
_IN_THE_IMAGE = {"/opt/sparkmirror": IMAGE}
_SERVICE = re.compile(rf"[a-z0-9-]+\.{NAMESPACE}\.svc\b")

Objects = Mapping[str, dict[str, Any]]
"""By `KIND/NAME`."""


def start_pod(pod: dict[str, Any], objects: Objects, directory: Path, path: str) -> "subprocess.Popen[bytes] | None":
    """The process of the pod's one container; None while an object is missing that it mounts, as Kubernetes waits.
    Programs are found along `path`."""
    name = pod["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    mounted = _mounted(pod, objects)
    if mounted is None:
        return None
    places = {place: directory / f"{name}-files" / place.strip("/") for place in mounted}
    for place, files in mounted.items():
        places[place].mkdir(parents=True)
        for file, text in files.items():
            (places[place] / file).write_text(_here(text, places))
    environment = {**os.environ, **{one["name"]: _here(_value(one, name), places) for one in container["env"]}}
    environment |= {"PATH": path, "SPARK_LOCAL_DIRS": str(directory / name)}
    with (directory / f"pod-{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(IMAGE / "entrypoint.sh"), *(_here(one, places) for one in container["args"])],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, env=environment, start_new_session=True,
        )  # fmt: skip


def _mounted(pod: dict[str, Any], objects: Objects) -> dict[str, dict[str, str]] | None:
    """By its place, the files of each mounted config map and Secret."""
    (container,) = pod["spec"]["containers"]
    volumes = {one["name"]: one for one in pod["spec"].get("volumes", ())}
    mounted = {}
    for mount in container.get("volumeMounts", ()):
        volume = volumes[mount["name"]]
        if "configMap" in volume:
            found = objects.get(f"configmaps/{volume['configMap']['name']}")
            files = {} if found is None else _renamed(found.get("data") or {}, volume["configMap"].get("items"))
        elif "secret" in volume:
            found = objects.get(f"secrets/{volume['secret']['secretName']}")
            files = {} if found is None else {key: base64.b64decode(one).decode() for key, one in found["data"].items()}
        else:
            continue
        if found is None:
            return None
        mounted[mount["mountPath"]] = files
    return mounted


def _renamed(files: dict[str, str], items: list[dict[str, Any]] | None) -> dict[str, str]:
    return files if not items else {one["path"]: files[one["key"]] for one in items}


def _here(text: str, places: Mapping[str, Path]) -> str:
    for place, real in {**places, **_IN_THE_IMAGE}.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w.-])", str(real), text)
    return _SERVICE.sub(LOOPBACK, text)


def _value(variable: dict[str, Any], pod: str) -> str:
    source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return str(variable.get("value", "")) if source is None else _FIELDS.get(source, pod)
