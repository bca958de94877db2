"""Writes the reference of the public API from its docstrings: `python -m sparkmirror.api_reference > docs/api.md`.

Sources are parsed, not imported: annotations stand as they were written, and nothing is started. `PUBLIC` lists what is
public; `tests/unit/test_api_reference.py` compares the page.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PUBLIC: Final[Mapping[str, Sequence[str]]] = {
    "sparkmirror.client": (
        "MirrorClient", "replication_hops", "heartbeat_topics", "checkpoint_topics", "upstream_clusters",
        "translate_offsets", "hops_of", "sources_of", "NO_HOPS",
    ),
    "sparkmirror.records.kafka_records": ("KafkaRecords",),
    "sparkmirror.relay.kafka_runs": ("KafkaRuns",),
    "sparkmirror.policy.naming": ("ReplicationPolicy", "DefaultReplicationPolicy", "IdentityReplicationPolicy"),
    "sparkmirror.policy.own": ("OwnTopics", "OwnGroups", "OwnConfigs"),
    "sparkmirror.testing.kafka": ("KafkaCluster", "Broker"),
    "sparkmirror.testing.process": ("JavaProcess",),
    "sparkmirror.testing.proxy": ("LongLink", "LinkProxy"),
    "sparkmirror.model": ("TopicPartition",),
    "sparkmirror.kafka.group_answers": ("Committed",),
    "sparkmirror.ledger.mirror_records": ("Checkpoint", "Heartbeat"),
    "sparkmirror.errors": (
        "SparkMirrorError", "ClusterError", "ClusterUnreachable", "AuthenticationFailed", "AuthorizationFailed",
        "ProtocolError", "RecordTooLarge", "FencedError", "ConfigError", "EnvironmentProblem",
    ),
}  # fmt: skip
_TITLE = """\
# Python API

Written by `python -m sparkmirror.api_reference` from the docstrings; a test compares. What stands here is public: it
changes with a new minor version only, and the changelog says how. All else in the package may change at any time.

SparkMirror is a command first ([cli.md](cli.md)). From Python there are the client library for applications that fail
over by themselves, the data sources for Spark programs of one's own ([spark.md](spark.md)), contracts for naming and
filters ([policies.md](policies.md)), and embedded Kafka for tests. A function of one's own for records
(`transforms.function = module:function`) takes a DataFrame and gives one ([transforms.md](transforms.md)). The package
is typed (`py.typed`).
"""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference() -> str:
    """The page."""
    lines = [_TITLE, *(f"- [`{module}`](#{module.replace('.', '')}): {', '.join(f'`{name}`' for name in names)}"
                       for module, names in PUBLIC.items())]  # fmt: skip
    for module, names in PUBLIC.items():
        lines += ["", *_module(module, names)]
    return "\n".join(lines) + "\n"


def _module(module: str, names: Sequence[str]) -> Iterator[str]:
    tree = ast.parse(_source(module))
    yield f"## {module}"
    yield from ("", _documentation(tree, module))
    for name in names:
        yield from ("", *_definition(name, *_find(tree, name)))


def _find(tree: ast.Module, name: str) -> tuple[ast.stmt, str]:
    """Where `tree` defines the name, or the module that it takes it from. Raises LookupError."""
    found = dict(_definitions(tree))
    if name in found:
        return found[name]
    for statement in tree.body:
        match statement:
            case ast.ImportFrom(module=str(module), names=aliases) if name in {alias.name for alias in aliases}:
                return _find(ast.parse(_source(module)), name)
    raise LookupError(f"{name} is neither defined nor imported")


def _source(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, module
    return Path(spec.origin).read_text(encoding="utf-8")


def _definitions(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, tuple[ast.stmt, str]]]:
    """Names with their statements; constants and fields with the docstring that may follow them."""
    for statement, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, (statement, ast.get_docstring(statement) or "")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, (statement, _string(after))


def _string(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
    return ""


def _documentation(node: ast.Module | ast.ClassDef | _Function, name: str) -> str:
    found = ast.get_docstring(node)
    assert found, f"{name} is public and has no docstring"
    return found


def _definition(name: str, statement: ast.stmt, doc: str) -> Iterator[str]:
    match statement:
        case ast.ClassDef():
            yield from _class(statement)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (
                f"### {name}",
                "",
                f"```python\n{_signature(statement)}\n```",
                "",
                _documentation(statement, name),
            )
        case _:
            yield from (f"### {name}", "", f"`{ast.unparse(statement)}`", *(("", doc) if doc else ()))


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    made = next((one for one in node.body if isinstance(one, _Function) and one.name == "__init__"), None)
    yield from (
        f"### {node.name}",
        "",
        f"```python\nclass {node.name}({bases})" if bases else f"```python\nclass {node.name}",
    )
    if made is not None:
        yield _signature(made, name=node.name)
    yield from ("```", "", _documentation(node, node.name))
    if made is not None and (doc := ast.get_docstring(made)):
        yield from ("", doc)
    yield from _members(node)


def _members(node: ast.ClassDef) -> Iterator[str]:
    """Fields and methods as a list; what is said of each stands below it."""
    for name, (statement, doc) in _definitions(node):
        if name.startswith("_"):
            continue
        yield from ("", f"- `{_member(statement)}`")
        if doc:
            yield ""
        yield from (f"  {line}".rstrip() for line in doc.splitlines())


def _member(statement: ast.stmt) -> str:
    if not isinstance(statement, _Function):
        return ast.unparse(statement)
    if any(ast.unparse(one) == "property" for one in statement.decorator_list):
        return f"{statement.name}: {_annotation(statement.returns)}"
    return _signature(statement).removeprefix("def ")


def _signature(function: _Function, name: str = "") -> str:
    """Without `self` or `cls`; on one line, however long."""
    arguments = ast.parse(ast.unparse(function.args).join(("def f(", "): ...")), mode="exec").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    listed = arguments.args
    if listed.args and listed.args[0].arg in ("self", "cls"):
        del listed.args[0]
    if name:
        return f"{name}({ast.unparse(listed)})"
    return f"def {function.name}({ast.unparse(listed)}) -> {_annotation(function.returns)}"


def _annotation(node: ast.expr | None) -> str:
    return "None" if node is None else ast.unparse(node).strip("'\"")


if __name__ == "__main__":
    print(reference(), end="")
