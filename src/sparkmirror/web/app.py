"""The routes of the status page. `web.server` makes them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.errors import SparkMirrorError
from sparkmirror.web.guard import PROBES, Guard, RequestLimits, refuse
from sparkmirror.web.health import Health
from sparkmirror.web.threads import run_slowly

Document = Callable[[], tuple[bytes, str]]
"""Makes the body of an answer and its content type, on a thread of its own; may raise SparkMirrorError."""

STATIC: Final = Path(__file__).with_name("static")


def make_app(
    settings: StatusSettings, health: Health, documents: Mapping[str, Document], further: Iterable[BaseRoute] = ()
) -> Starlette:
    """The application. `documents` are further paths to read, such as `/metrics`; `further` are the routes of
    `web.api`."""
    routes: list[BaseRoute] = [
        Route("/", _page),
        *_probes(health),
        *(Route(path, _document(make)) for path, make in documents.items()),
        *further,
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers = {HTTPException: _refused, SparkMirrorError: _failed}
    middleware = [Middleware(Guard, settings=settings), Middleware(RequestLimits, settings=settings)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


def make_probes_app(health: Health) -> Starlette:
    """An application for a port of its own: `/healthz` and `/readyz` and nothing else, to any client that reaches
    it."""
    return Starlette(routes=_probes(health), exception_handlers={HTTPException: _refused})


async def _page(_: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


def _probes(health: Health) -> list[Route]:
    """The probes are answered on the server's event loop, so that busy worker threads do not delay them."""

    async def healthz(_: Request) -> Response:
        return _say(health.problem())

    async def readyz(_: Request) -> Response:
        return _say(health.problem() or health.waiting())

    return [Route(path, answer) for path, answer in zip(PROBES, (healthz, readyz), strict=True)]


def _say(problem: str) -> Response:
    return PlainTextResponse(f"{problem or 'ok'}\n", HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK)


def _document(make: Document) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        body, content_type = await run_slowly(make)
        return Response(body, headers={"Content-Type": content_type})

    return answer


async def _refused(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    return refuse(HTTPStatus(problem.status_code), f"{problem.detail}.")


async def _failed(_: Request, problem: Exception) -> Response:
    """Answers with the sentence of a cluster's error."""
    assert isinstance(problem, SparkMirrorError)
    return refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(problem.args[0]), problem.hint)
