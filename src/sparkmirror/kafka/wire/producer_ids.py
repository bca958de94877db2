"""Asks for a producer id without transactions: the identity of an idempotent producer (KIP-98). Blocks.

Called by `records.batch_producer`, in Spark's workers.
"""

import itertools
import time
from typing import Any, Final

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from sparkmirror.kafka.errors import NO_ERROR, UNKNOWN_SERVER_ERROR, is_retriable, refusal
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.former_controller import make_look_for_controller
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import ask_anyone, with_servers_from

_INIT_PRODUCER_ID: Final = 22
_VERSIONS: Final = (0, 4)
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 1.0
_TIMEOUT_MS: Final = 60_000


def fresh_producer(settings: ClientSettings) -> ProducerIdentity:
    """An identity that nobody else has; any broker gives it. Raises ClusterError, AuthorizationFailed without WRITE."""
    pause, ends_at = _PAUSE_SECONDS, time.monotonic() + settings.request_timeout_seconds
    for turn in itertools.count():
        answer = ask_anyone(with_servers_from(settings, turn), _ask)
        code = int(answer.error_code)
        if code == NO_ERROR:
            break
        is_passing = code == UNKNOWN_SERVER_ERROR or is_retriable(code)
        if not is_passing or time.monotonic() + pause > ends_at:
            raise refusal(code, settings.alias, "asking for a producer id")
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)
    return ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))


def _ask(link: Link) -> Any:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS, producer_id=-1, producer_epoch=-1
    )
    answer = link.ask(request, InitProducerIdResponse, link.version(_INIT_PRODUCER_ID, _VERSIONS))
    if answer.error_code == UNKNOWN_SERVER_ERROR:
        make_look_for_controller(link)
    return answer
