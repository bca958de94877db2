"""Damage to bytes, for what must survive any: cut, stretched, flipped, filled with extreme numbers."""

from collections.abc import Callable

from hypothesis import strategies as st

EXTREMES = [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 10, b"\0\0\0\1"]


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """One to four injuries, each at a place given as a share of the whole."""
    kinds = st.sampled_from(["cut", "flip", "fill", "insert", "remove", "repeat"])
    injuries = draw(st.lists(st.tuples(kinds, st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4))

    def apply(data: bytes) -> bytes:
        for kind, share, number in injuries:
            at = int(share * max(len(data) - 1, 0))
            extreme = EXTREMES[number % len(EXTREMES)]
            piece = data[at : at + 1 + number % 40]
            data = {
                "cut": data[:at],
                "flip": data[:at] + bytes([piece[0] ^ (1 << number % 8)]) + data[at + 1 :] if piece else data,
                "fill": data[:at] + extreme + data[at + len(extreme) :],
                "insert": data[:at] + extreme + data[at:],
                "remove": data[:at] + data[at + len(piece) :],
                "repeat": data[:at] + piece * 3 + data[at:],
            }[kind]
        return data

    return apply
