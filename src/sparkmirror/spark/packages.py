"""The Python packages that executors need, as archives in the user's cache. Called by `cli.submit`.

Spark unpacks them on every executor (`spark.archives`), whose own Python of the same version then finds the packages
by PYTHONPATH. One is sparkmirror itself, small and new with each change of it; the other is what it requires, but for
PySpark, which each Spark brings along. There is no Python in them: an archive of the whole environment, as venv-pack
makes, has Spark's jars in it too and ends in a link to a Python that must be at the same place on every machine. An
editable installation can be packed as well.
"""

import hashlib
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import sparkmirror
from sparkmirror.cache import cache_directory, publish_once

_OWN, _REQUIRED = "sparkmirror-itself", "sparkmirror-requires"
_BROUGHT_BY_SPARK = ("pyspark", "py4j")
_LEFT_OUT = ("tests", "__pycache__", "include")
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^]]*)\])?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_QUICKLY = 1


def build_packages(extras: frozenset[str] = frozenset()) -> dict[str, Path]:
    """Archives by the name of the directory they are to be unpacked in, made now where there are none yet.

    `extras` of sparkmirror are packed too, such as `msk`. Raises OSError.
    """
    packages = required("sparkmirror", extras)
    this = hashlib.sha256(f"{sys.version_info[:2]} {sysconfig.get_platform()}".encode())
    own, others = this.copy(), this.copy()
    for file in _own_files():
        own.update(f"{file.name}\n".encode() + file.read_bytes())
    for name, package in sorted(packages.items()):
        others.update(f"{name} {package.version}\n".encode())
    kinds = ((_OWN, own, _pack_own), (_REQUIRED, others, partial(_pack_required, packages)))
    places = cache_directory() / "spark"
    return {
        name: publish_once(places / f"{name}-{digest.hexdigest()[:16]}", pack) / f"{name}.tar.gz"
        for name, digest, pack in kinds
    }


def executor_python() -> str:
    """The command by which an executor is likely to find a Python of this version."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def import_places() -> list[str]:
    """Where this process finds packages, for Python processes beside it that another Python runs."""
    places = [str(Path(sparkmirror.__file__).parent.parent), *(place for place in sys.path if "-packages" in place)]
    return list(dict.fromkeys(places))


def required(name: str = "sparkmirror", extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """What `name` requires, with these extras, and what that requires: installed distributions, without Spark's."""
    found: dict[str, Distribution] = {}
    ahead = [(name, extras)]
    seen = set()
    while ahead:
        wanted = ahead.pop()
        if wanted in seen or wanted[0] in _BROUGHT_BY_SPARK:
            continue
        seen.add(wanted)
        try:
            found[wanted[0]] = distribution(wanted[0])
        except PackageNotFoundError:  # for another Python or system than this
            continue
        ahead += _requirements(found[wanted[0]], wanted[1])
    del found[name]
    return found


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in package.requires or ():
        requirement, _, marker = line.partition(";")
        parts, extra = _REQUIREMENT.match(requirement.strip()), _EXTRA.search(marker)
        if parts is not None and (extra is None or extra[1] in extras):
            more = frozenset(one.strip() for one in (parts["extras"] or "").split(",") if one.strip())
            yield parts["name"].lower().replace("_", "-"), more


def _own_files() -> list[Path]:
    own = Path(sparkmirror.__file__).parent
    return sorted(file for file in own.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _pack_own(directory: Path) -> None:
    above = Path(sparkmirror.__file__).parent.parent
    with tarfile.open(directory / f"{_OWN}.tar.gz", "w:gz") as archive:
        for file in _own_files():
            archive.add(file, str(file.relative_to(above)))


def _pack_required(packages: Mapping[str, Distribution], directory: Path) -> None:
    with tarfile.open(directory / f"{_REQUIRED}.tar.gz", "w:gz", compresslevel=_QUICKLY) as archive:
        for package in packages.values():
            for entry in package.files or ():
                if ".." not in entry.parts and not set(entry.parts) & set(_LEFT_OUT):
                    archive.add(str(entry.locate()), str(entry))
