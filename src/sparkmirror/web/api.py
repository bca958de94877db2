"""Answers the page's requests: state and changes, curves, configuration, look-ups and commands.

`runtime.page` makes it, `web.app` mounts it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from sparkmirror.shown import dump_shown
from sparkmirror.web.orders import Order, parse_order
from sparkmirror.web.page_state import PageState
from sparkmirror.web.threads import run_slowly

_TICK_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.2
_ORDER_BYTES_MAX: Final = 16 << 10
_CURVES_MAX: Final = 500
_ROWS_MAX: Final = 1000
_DIGITS_MAX: Final = 18
_ORDER_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class PageRequests:
    """The functions that answer the page. Flows are named `A->B`.

    `curves` gives the lag of partitions by their rows' numbers, `configuration` the configuration as JSON, and each of
    `lookups` (by the last part of its path) JSON about a flow. `order` carries out a command. The latter two may raise
    ClusterError.
    """

    page_state: PageState
    flows: tuple[str, ...]
    curves: Callable[[str, list[int]], Mapping[int, list[int | None]]]
    configuration: Callable[[], Any]
    lookups: Mapping[str, Callable[[str], Any]]
    order: Callable[[Order], None]


class _Shown(JSONResponse):
    """JSON of texts that come from clusters and files, with control characters escaped."""

    def render(self, content: Any) -> bytes:
        return dump_shown(content).encode()


def make_routes(desk: PageRequests, is_closing: Callable[[], bool]) -> list[BaseRoute]:
    """The routes. `is_closing` returns True when the server wants to end, and then ends the streams."""

    async def state(request: Request) -> Response:
        body = await run_in_threadpool(_changes_json, desk.page_state, *_place(request))
        return Response(body, media_type="application/json")

    async def events(request: Request) -> Response:
        life, since = _place(request)
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        return StreamingResponse(_stream(desk.page_state, life, since, is_closing), headers=headers)

    def lags(request: Request) -> Response:
        numbers = [_number("n", one) for one in request.query_params.get("n", "").split(",")[:_CURVES_MAX] if one]
        return _Shown(desk.curves(_flow(request, desk), numbers))

    def config(_: Request) -> Response:
        return _Shown(desk.configuration())

    def look_up(look: Callable[[str], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return _Shown(await run_slowly(partial(look, _flow(request, desk))))

        return answer

    async def orders(request: Request) -> Response:
        order = await _read_order(request)
        if order.flow not in desk.flows:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"There is no flow {order.flow}")
        await run_slowly(partial(desk.order, order))
        return JSONResponse({"ordered": order.action}, HTTPStatus.ACCEPTED)

    return [
        Route("/api/state", state),
        Route("/api/events", events),
        Route("/api/lags", lags),
        Route("/api/config", config),
        *(Route(f"/api/{name}", look_up(look)) for name, look in desk.lookups.items()),
        Route("/api/orders", orders, methods=["POST"]),
    ]


def _place(request: Request) -> tuple[str, int]:
    """The state that a viewer already has: the process it came from, and its version."""
    return request.query_params.get("life", ""), _number("since", request.query_params.get("since", "0"))


def _number(name: str, text: str) -> int:
    """The number in a query. Raises HTTPException for a number that this server cannot have sent."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"`{name}` is a whole number of at most {_DIGITS_MAX} digits")
    return int(text)


def _flow(request: Request, desk: PageRequests) -> str:
    name = request.query_params.get("flow", "")
    if name not in desk.flows:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"There is no flow {name}" if name else "Name a `flow`")
    return name


async def _read_order(request: Request) -> Order:
    try:
        body = await asyncio.wait_for(_read_body(request), _ORDER_SECONDS_MAX)
    except TimeoutError:
        sentence = f"The order did not come within {_ORDER_SECONDS_MAX:.0f} s"
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, sentence) from None
    try:
        return parse_order(json.loads(body))
    except (ValueError, RecursionError) as problem:
        sentence = "That is not JSON" if isinstance(problem, json.JSONDecodeError) else str(problem).removesuffix(".")
        raise HTTPException(HTTPStatus.BAD_REQUEST, sentence) from None


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _ORDER_BYTES_MAX:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "That is too long for an order")
    return bytes(body)


def _changes_json(page_state: PageState, life: str, since: int) -> str:
    return _encode(page_state.since(since, life))


def _encode(state: Mapping[str, Any]) -> str:
    return dump_shown({**state, "now_ms": time.time_ns() // 1_000_000})


def split_whole(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Splits a whole state into pieces: first the small parts, with which a page can draw, then the rows.

    Only the last piece carries the version, so that a viewer that is cut off before it starts again.
    """
    if not state["whole"] or sum(map(len, state["rows"].values())) <= _ROWS_MAX:
        yield state
        return
    yield {**state, "rows": {}, "version": 0}
    rest = {**state, "whole": False, "parts": {}, "rows": {}}
    for name, rows in state["rows"].items():
        for at in range(0, len(rows), _ROWS_MAX):
            yield {**rest, "version": 0, "rows": {name: rows[at : at + _ROWS_MAX]}}
    yield rest


async def _stream(page_state: PageState, life: str, since: int, is_closing: Callable[[], bool]) -> AsyncIterator[str]:
    """One event a second: the changes, or only the time, which shows a viewer that the connection works."""
    while not is_closing():
        version = page_state.version
        for piece in split_whole(await run_in_threadpool(page_state.since, since, life)):
            yield f"data: {await run_in_threadpool(_encode, piece)}\n\n"
        life, since = page_state.life, version
        next_at = time.monotonic() + _TICK_SECONDS
        while time.monotonic() < next_at and not is_closing():
            await asyncio.sleep(_LOOK_SECONDS)
