"""What compiled loops do in single instructions, where the loops that numba makes of Python would take many; and the
functions of the C library that they call.

Called by kernels as `batch.machine_code.Instructions`; imported by `batch.compiling` alone, since it needs numba.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from sparkmirror.batch.machine_code import STEP_BYTES


@intrinsic  # type: ignore[untyped-decorator]
def copy_step(_typing: Any, room: Any, at: Any, content: Any, start: Any) -> tuple[Any, Callable[..., Any]]:
    """`room[at : at + 16] = content[start : start + 16]`, in two instructions. Unguarded: its callers look."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        room_type, _, content_type, _ = signature.args
        target = make_array(room_type)(context, builder, arguments[0]).data
        source = make_array(content_type)(context, builder, arguments[2]).data
        size = context.get_constant(types.intp, STEP_BYTES)
        target, source = builder.gep(target, [arguments[1]]), builder.gep(source, [arguments[3]])
        cgutils.raw_memcpy(builder, target, source, size, 1)
        return context.get_dummy_value()

    return types.void(room, at, content, start), generate


@intrinsic  # type: ignore[untyped-decorator]
def read_word(_typing: Any, content: Any, at: Any) -> tuple[Any, Callable[..., Any]]:
    """Eight bytes of `content` as a number. Unguarded: its callers look."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.gep(make_array(signature.args[0])(context, builder, arguments[0]).data, [arguments[1]])
        word = builder.bitcast(start, ir.IntType(64).as_pointer())
        return builder.load(word, align=1)

    return types.uint64(content, at), generate


ppoll = types.ExternalFunction("ppoll", types.int32(types.intp, types.uint64, types.intp, types.intp))
read = types.ExternalFunction("read", types.int64(types.int32, types.intp, types.uint64))
recv = types.ExternalFunction("recv", types.int64(types.int32, types.intp, types.uint64, types.int32))
recvmsg = types.ExternalFunction("recvmsg", types.int64(types.int32, types.intp, types.int32))
send = types.ExternalFunction("send", types.int64(types.int32, types.intp, types.uint64, types.int32))
write = types.ExternalFunction("write", types.int64(types.int32, types.intp, types.uint64))
clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
"""As their manual pages say; a pointer is a number."""
