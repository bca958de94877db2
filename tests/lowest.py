"""The lowest versions of packages that pyproject.toml allows, as a second lock, and an environment that has them.

`python -m tests.lowest DIRECTORY` makes one with the repository in it, for `make lowest`; `python -m tests.lowest`
prints the bounds as pins, of which `make lock` makes the lock, `requirements.lowest`. Of the lock only what this
environment has in another version is installed: Spark and the tools of tests are this one's.
"""

import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from tests.installed import install

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements.lowest"
EXTRAS: Final = ("web", "demo", "msk", "otel", "avro")
"""All that can be installed without a library of the system: `kerberos` is built against it."""
TESTS: Final = {
    "numpy": "batch/test_crc.py",
    "numba": "batch/test_rewrite.py",
    "llvmlite": "batch/test_machine_code.py",
    "google-crc32c": "batch/test_records.py",
    "cramjam": "batch/test_codecs.py",
    "pyarrow": "pipeline/relay",
    "kafka-python": "kafka/wire",
    "msgspec": "ledger",
    "javaproperties": "config/formats",
    "pyyaml": "config/formats",
    "regex": "policy",
    "rich": "cli/test_progress.py",
    "psutil": "cli/test_doctor.py",
    "cryptography": "kafka/security/test_keystore.py",
    "shtab": "cli/test_completion.py",
    "python-json-logger": "logs",
    "starlette": "web/test_serving.py",
    "uvicorn": "web/test_server.py",
    "botocore": "kafka/test_msk.py",
    "fastavro": "spark/test_avro_values.py",
    "opentelemetry-sdk": "telemetry/test_otlp.py",
    "opentelemetry-exporter-otlp-proto-http": "telemetry/test_otlp.py",
}
"""Unit tests, below `tests/unit`, that use the package most, for continuous integration; `make lowest` runs all."""
_BOUND: Final = re.compile(r"(?P<name>[\w-]+)(?:\[.*\])?[>=]=(?P<version>[\w.]+)")


def bounds() -> dict[str, str]:
    """The lowest version of each package that the project and its extras ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    found = {line: _BOUND.match(line) for line in asked}
    if unbound := [line for line, match in found.items() if match is None]:
        raise SystemExit(f"pyproject.toml has no lower bound for {', '.join(unbound)}")
    return {match["name"]: match["version"] for match in found.values() if match is not None}


def tests() -> list[str]:
    """The files and directories of TESTS, relative to the repository."""
    return sorted({f"tests/unit/{place}" for place in TESTS.values()})


def locked() -> Mapping[str, str]:
    """The entry of each package of the lock, with its hashes, by name."""
    entries = LOCK.read_text().replace("\\\n", "").splitlines()
    return {entry.partition("==")[0]: entry for entry in entries if "==" in entry and not entry.startswith("#")}


def version_of(entry: str) -> str:
    """`2.0` of `msgspec==2.0 --hash=…`."""
    return entry.split()[0].partition("==")[2]


def different() -> list[str]:
    """The entries of the lock that this environment has in another version, or not at all."""
    here = {one.name.lower().replace("_", "-"): one.version for one in distributions()}
    return [entry for name, entry in locked().items() if version_of(entry) != here.get(name)]


def make(package: Path, home: Path, *, editable: bool = False) -> Path:
    """An environment with the lowest versions and the package (a wheel, a source tree); returns its commands' place."""
    return install(package, home, different(), editable=editable)


def main() -> None:
    if len(sys.argv) > 1:
        make(ROOT, Path(sys.argv[1]), editable=True)
    else:
        print("\n".join(f"{name}=={version}" for name, version in bounds().items()))


if __name__ == "__main__":
    main()
