"""What a running mirror serves on `status.listen`: wiring of `web.server`. Called by `engine.run`."""

from contextlib import AbstractContextManager, nullcontext

from sparkmirror.config.flows import MirrorConfig
from sparkmirror.web.health import Health


def open_page(config: MirrorConfig, health: Health) -> AbstractContextManager[object]:
    """Serves until it is left; nothing is imported or opened where the file says no `status.listen`.

    Raises EnvironmentProblem where it cannot listen.
    """
    if not config.status.listen:
        return nullcontext()
    from sparkmirror.web.server import PageServer

    return PageServer(config.status, health, {}).start()
