"""Finds and makes a class of the user's, named `module:Class` in a file. Called by `policy.own` and
`kafka.security.own_tokens`.

A class may have `configure(properties)`, which is called once.
"""

import importlib
from collections.abc import Mapping
from typing import Any


def find_class(spec: str) -> Any:
    """What `spec` names. Raises ValueError with a phrase that completes "`key = spec` …"."""
    module_name, _, class_name = spec.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module_name}.".startswith(f"{missing.name}."):
            raise ValueError(f"cannot be imported: the module {missing.name} is missing") from None
        raise ValueError(f"names the module {module_name}, which Python does not find; see PYTHONPATH") from None
    except Exception as problem:
        raise ValueError(f"cannot be imported: {said(problem)}") from None
    if not callable(found := getattr(module, class_name, None)):
        raise ValueError(f"names {class_name}, and the module {module_name} has no such class")
    return found


def make_instance(
    spec: str, found: Any, arguments: tuple[Any, ...], properties: Mapping[str, str], names: tuple[str, ...]
) -> Any:
    """An instance with methods of all `names`, configured. Raises ValueError with a phrase."""
    try:
        made = found(*arguments)
        if missing := [name for name in names if not callable(getattr(made, name, None))]:
            raise ValueError(f"lacks {', '.join(missing)}")
        if callable(configure := getattr(made, "configure", None)):
            configure(dict(properties))
    except ValueError:
        raise
    except Exception as problem:
        raise ValueError(f"cannot be used: {spec} raised {said(problem)}") from None
    return made


def said(problem: Exception) -> str:
    """An exception as one line."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"
