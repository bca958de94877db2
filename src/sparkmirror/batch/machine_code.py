"""Declares the loops over bytes that are compiled to machine code, and links what was compiled: `kernel` and `part`.

What numba makes of a kernel is kept as an object file (`batch.kernel_files`), which llvmlite links in milliseconds:
importing numba takes half a second of CPU and 60 MB, and only `batch.compiling` does it. An object file knows nothing
of Python or of numba: it has numbers and pointers only.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Final, TypeAlias, TypeVar, cast

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from sparkmirror.batch import kernel_files
from sparkmirror.batch.mapped_files import give_back

Int64: TypeAlias = Any
"""A number in compiled code: 64 bits, and it wraps as Java's do."""
Bytes: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.int32]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ArrayParameter:
    """An array without gaps; `is_written` where the kernel writes into it."""

    dtype: np.dtype[Any]
    dimensions: int
    is_written: bool

    def fits(self, array: NDArray[Any]) -> bool:
        flags = array.flags
        has_form = array.dtype == self.dtype and array.ndim == self.dimensions and flags.c_contiguous
        return has_form and (flags.writeable or not self.is_written)


class NumberParameter:
    """A number of 64 bits; a truth value is 1 or 0."""


Parameter: TypeAlias = ArrayParameter | NumberParameter

BYTES: Final = ArrayParameter(np.dtype(np.uint8), 1, is_written=False)
ROOM: Final = ArrayParameter(np.dtype(np.uint8), 1, is_written=True)
OFFSETS: Final = ArrayParameter(np.dtype(np.int64), 1, is_written=False)
INTEGERS: Final = ArrayParameter(np.dtype(np.int64), 1, is_written=True)
TABLE: Final = ArrayParameter(np.dtype(np.int64), 2, is_written=True)
PLACE: Final = ArrayParameter(np.dtype(np.int32), 1, is_written=True)
PLACES: Final = ArrayParameter(np.dtype(np.int32), 2, is_written=True)
INTEGER: Final = NumberParameter()
"""A kernel's parameters: bytes to read, bytes to write, numbers to read, and to write, tables of them, places, tables
of these; a number."""

PARTS: Final[set[Callable[..., Any]]] = set()
"""What `part` was put on."""


STEP_BYTES: Final = 16
"""What `copy_step` of `batch.intrinsics` copies, and its callers look for room for."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """A function of `batch.intrinsics`, which is imported where a kernel that calls it is compiled."""

    name: str

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.name} is called by compiled code alone")


def part(function: Function) -> Function:
    """A function that is compiled into the kernels that call it."""
    PARTS.add(function)
    return function


def kernel(*parameters: Parameter, results: int = 1) -> Callable[[Function], Function]:
    """Makes machine code of a function: links what was compiled before, else compiles it.

    The function returns so many numbers, as a tuple where they are not one. The code runs without the interpreter's
    lock. Its callers get a TypeError for an array of another form than `parameters` say.
    """

    def link(function: Function) -> Function:
        name = f"{function.__module__}.{function.__qualname__}"
        code = kernel_files.load(name)
        if code is None:
            from sparkmirror.batch.compiling import compile_kernel

            code = compile_kernel(function, parameters, results, name)
            kernel_files.keep(name, code)
        linked: Any = _Kernel(_link(code, name), name, parameters, results, function.__doc__)
        return linked  # type: ignore[no-any-return]

    return link


_CODE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
"""How all of them are called: with the addresses of the arrays, and with the numbers, which are the arrays' shapes and
the other arguments in the order of the parameters, and behind them the results. ctypes takes longer the more arguments
there are."""
_WORD_BYTES: Final = 8


class _Kernel:
    """Linked code, called as the function that it was made of."""

    def __init__(self, address: int, name: str, parameters: Sequence[Parameter], results: int, doc: str | None) -> None:
        self._code = _CODE(address)
        self._name = name
        self._parameters = parameters
        self._results = results
        self._arrays = sum(isinstance(parameter, ArrayParameter) for parameter in parameters)
        dimensions = [one.dimensions for one in parameters if isinstance(one, ArrayParameter)]
        self._given_at = self._arrays + sum(dimensions)
        self._result_at = self._given_at + len(parameters) - self._arrays
        self._room_type = ctypes.c_int64 * (self._result_at + results)
        self.__doc__ = doc

    def __call__(self, *arguments: Any) -> Any:
        addresses, numbers = self._read(self._parameters, arguments)
        room = self._room_type(*addresses, *numbers)
        at = ctypes.addressof(room)
        self._code(at, at + _WORD_BYTES * self._arrays)
        first = self._result_at
        return room[first] if self._results == 1 else tuple(room[first:])

    def _read(self, parameters: Sequence[Parameter], arguments: Sequence[Any]) -> tuple[list[int], list[int]]:
        """The addresses of arrays, and shapes and numbers in the order of the parameters."""
        addresses: list[int] = []
        numbers: list[int] = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            if not isinstance(parameter, ArrayParameter):
                numbers.append(index(argument))
            elif parameter.fits(argument):
                addresses.append(_address(argument))
                numbers += argument.shape
            else:
                raise TypeError(f"{self._name} is given {_describe(argument)}, where {parameter} is asked for")
        return addresses, numbers

    def bind(self, arrays: Sequence[NDArray[Any]]) -> Callable[..., Any]:
        addresses, shapes = self._read(self._parameters[: self._arrays], arrays)
        room = self._room_type(*addresses, *shapes)
        code, given_at, result_at, kept = self._code, self._given_at, self._result_at, tuple(arrays)
        at, words = ctypes.addressof(room), cast(Any, room)
        numbers_at = at + _WORD_BYTES * self._arrays

        def call(*numbers: int) -> int:
            assert kept
            words[given_at:result_at] = numbers
            code(at, numbers_at)
            result: int = words[result_at]
            return result

        return call


def bind(kernel: Callable[..., Any], *arrays: NDArray[Any]) -> Callable[..., Any]:
    """The kernel with these arrays, to be called with its numbers alone, in a third of the time, by one thread. Its
    parameters are arrays first and numbers behind, and it has one result. It keeps the arrays."""
    assert isinstance(kernel, _Kernel)
    return kernel.bind(arrays)


def _address(array: NDArray[Any]) -> int:
    """As `array.ctypes.data`, in a fifth of its time where that can be."""
    if array.flags.writeable and array.size:
        buffer: Any = array
        return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    address: int = array.ctypes.data
    return address


def _describe(array: NDArray[Any]) -> str:
    return f"an array of {array.dtype}, shape {array.shape}, strides {array.strides}"


def _processor() -> Any:
    """What LLVM makes code for, and links it on: this machine's."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


PROCESSOR: Final = _processor()
_ENGINE: Final = llvm.create_mcjit_compiler(llvm.parse_assembly(""), PROCESSOR)
"""Where linked code lives, as long as the process does. It is made as this module is imported: of two threads that each
made one, the later one's would take the place of the other, whose code would be freed."""


def _link(code: bytes, name: str) -> int:
    """The address of that function."""
    _ENGINE.add_object_file(llvm.ObjectFileRef.from_data(code))
    _ENGINE.finalize_object()
    address: int = _ENGINE.get_function_address(name)
    return address


def leave_linker() -> None:
    """Take LLVM's own code, which linking has brought into memory, out of this process: some 45 MB. It comes back page
    by page where something is linked after this."""
    give_back("libllvmlite")
