"""Compiles the loops that `batch.machine_code` declares to object files, by numba: half a minute for all of them.

Called by `batch.machine_code` where there is no object file, and run as a program by `batch.kernel_files`. An object
file has one function that others see, which is called as `batch.machine_code` says, and nothing that is to be found
elsewhere.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import llvmlite.binding as llvm
import numba
from numba import carray, types

from sparkmirror.batch import intrinsics, kernel_files
from sparkmirror.batch.machine_code import PARTS, PROCESSOR, ArrayParameter, Instructions, Parameter

_REPORTING: Final = re.compile(r"^declare (.*@(?:Py|numba_|NRT_)\w*\(.*)$", re.MULTILINE)
_TRAP: Final = "declare void @llvm.trap()"
_SIGNATURE: Final = types.void(types.CPointer(types.voidptr), types.CPointer(types.int64))


def compile_kernel(function: Callable[..., Any], parameters: Sequence[Parameter], results: int, name: str) -> bytes:
    """An object file whose function `name` does what `function` does."""
    entry = numba.cfunc(_SIGNATURE)(_entry(_compiled(function), parameters, results))
    # An entry reports by functions of Python and numba what its kernel raises, and frees what it owns. A kernel raises
    # nothing and owns nothing; so that those need not be there, they are traps.
    text = _REPORTING.sub(r"define internal \1 {\n  call void @llvm.trap()\n  unreachable\n}", entry.inspect_llvm())
    module = llvm.parse_assembly(text if _TRAP in text else f"{text}\n{_TRAP}\n")
    for inner in module.functions:
        if inner.name == entry.native_name:
            inner.name = name
        elif not inner.is_declaration:
            inner.linkage = "internal"
    module.verify()
    code: bytes = PROCESSOR.emit_object(module)
    return code


@cache
def _compiled(function: FunctionType) -> Any:
    """What numba calls `function` by: with the parts and instructions that it calls put in their places."""
    known = dict(function.__globals__)
    for name in function.__code__.co_names:
        called = known.get(name)
        if isinstance(called, Instructions):
            known[name] = getattr(intrinsics, called.name)
        elif isinstance(called, FunctionType) and called in PARTS:
            known[name] = _compiled(called)
    linked = FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)
    return numba.njit(forceinline=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(linked)


def _entry(called: Any, parameters: Sequence[Parameter], results: int) -> Callable[..., Any]:
    """The function that makes arrays of addresses and shapes, calls the kernel, and takes its tuple apart."""
    known: dict[str, Any] = {"carray": carray, "called": called}
    arguments: list[str] = []
    arrays = at = 0
    for parameter in parameters:
        if not isinstance(parameter, ArrayParameter):
            arguments.append(f"numbers[{at}]")
            at += 1
            continue
        shape = ", ".join(f"numbers[{at + dimension}]" for dimension in range(parameter.dimensions))
        known[f"dtype{arrays}"] = parameter.dtype
        arguments.append(f"carray(addresses[{arrays}], ({shape},), dtype{arrays})")
        arrays += 1
        at += parameter.dimensions
    call = f"called({', '.join(arguments)})"
    lines = [f"numbers[{at}] = {call}"]
    if results != 1:
        lines = [f"answer = {call}", *[f"numbers[{at + place}] = answer[{place}]" for place in range(results)]]
    exec("\n    ".join(["def entry(addresses, numbers):", *lines]), known)
    entry: Callable[..., Any] = known["entry"]
    return entry


if __name__ == "__main__":
    kernel_files.fill(Path(sys.argv[1]), sys.argv[2:])
