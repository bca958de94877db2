"""Which test methods MirrorMaker 2 has: read from the class files of its test jars, kept in `methods-4.3.0.txt`.

A line of that file is `Class.method`, for a method that JUnit runs, or `Class extends Class`, for a class whose tests
are also its superclass's. `python -m tests.mm2suite --methods` writes it; `tests.mm2suite` compares it with the jars.
"""

import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

FILE = Path(__file__).with_name("methods-4.3.0.txt")
INTEGRATION = "Integration"
"""In the name of each class that starts clusters."""

_RUN_BY_JUNIT = {"Lorg/junit/jupiter/api/Test;", "Lorg/junit/jupiter/params/ParameterizedTest;"}
_UTF8, _CLASS = 1, 7
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant pool's entry behind its tag (JVM specification, 4.4)."""
_WIDE = {5, 6}


@dataclass(frozen=True, slots=True)
class TestClass:
    """One class file: simple names, and the methods that JUnit runs, in order."""

    name: str
    parent: str
    methods: tuple[str, ...]


def read_jars(jars: Sequence[Path]) -> list[str]:
    """The lines of `methods-4.3.0.txt` as these jars have them."""
    found = {one.name: one for jar in jars for one in _classes(jar)}
    lines = [f"{one.name}.{method}" for one in found.values() for method in one.methods]
    lines += [f"{one.name} extends {one.parent}" for one in found.values() if _inherits(one, found)]
    return sorted(lines)


def declared(lines: Sequence[str]) -> list[str]:
    """Each method where it is written, as `Class.method`."""
    return [line for line in lines if " extends " not in line]


def integration_tests(lines: Sequence[str]) -> list[str]:
    """What JUnit runs of the classes that start clusters, inherited tests by the class that inherits them."""
    methods: dict[str, set[str]] = {}
    for name, method in (line.split(".") for line in declared(lines)):
        methods.setdefault(name, set()).add(method)
    for name, parent in (line.split(" extends ") for line in lines if " extends " in line):
        methods[name] = methods.get(name, set()) | methods[parent]
    return sorted(f"{name}.{one}" for name, all_of in methods.items() if INTEGRATION in name for one in all_of)


def _inherits(one: TestClass, found: Mapping[str, TestClass]) -> bool:
    return one.parent in found and bool(found[one.parent].methods)


def _classes(jar: Path) -> Iterator[TestClass]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(".class") and "$" not in name:
                yield _read_class(BytesIO(archive.read(name)))


def _read_class(file: BytesIO) -> TestClass:
    file.seek(8)  # magic and version
    texts, classes = _read_constants(file)
    _, this, parent, interfaces = _numbers(file, ">HHHH")
    file.seek(2 * interfaces, 1)
    for _ in _members(file, texts):  # fields
        pass
    methods = [name for name, annotations in _members(file, texts) if annotations & _RUN_BY_JUNIT]
    own, above = (texts[classes[one]].rpartition("/")[2] for one in (this, parent))
    return TestClass(own, above, tuple(methods))


def _read_constants(file: BytesIO) -> tuple[dict[int, str], dict[int, int]]:
    """Texts by number, and for classes the number of their name."""
    texts, classes = {}, {}
    (count,) = _numbers(file, ">H")
    at = 1
    while at < count:
        (tag,) = _numbers(file, ">B")
        if tag == _UTF8:
            texts[at] = file.read(*_numbers(file, ">H")).decode(errors="replace")
        elif tag == _CLASS:
            (classes[at],) = _numbers(file, ">H")
        else:
            file.seek(_SIZES[tag], 1)
        at += 2 if tag in _WIDE else 1
    return texts, classes


def _members(file: BytesIO, texts: Mapping[int, str]) -> Iterator[tuple[str, set[str]]]:
    """Fields or methods: names and annotations."""
    (count,) = _numbers(file, ">H")
    for _ in range(count):
        _, name, _, attributes = _numbers(file, ">HHHH")
        annotations: set[str] = set()
        for _ in range(attributes):
            attribute, size = _numbers(file, ">HI")
            body = BytesIO(file.read(size))
            if texts[attribute] == "RuntimeVisibleAnnotations":
                annotations |= _annotations(body, texts)
        yield texts[name], annotations


def _annotations(body: BytesIO, texts: Mapping[int, str]) -> set[str]:
    """Types, up to the first annotation that has values: none stands before JUnit's in MirrorMaker's tests."""
    found = set()
    (count,) = _numbers(body, ">H")
    for _ in range(count):
        kind, values = _numbers(body, ">HH")
        found.add(texts[kind])
        if values:
            break
    return found


def _numbers(file: BytesIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
