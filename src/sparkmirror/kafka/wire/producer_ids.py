"""Asks for a producer id without transactions: the identity of an idempotent producer (KIP-98). Blocks.

Called by `records.batch_producer`, in Spark's workers.
"""

import time
from typing import Any, Final

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from sparkmirror.kafka.errors import NO_ERROR, is_retriable, refusal
from sparkmirror.kafka.fencing import ProducerIdentity
from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.kafka.wire.link import Link
from sparkmirror.kafka.wire.lookup import ask_anyone

_INIT_PRODUCER_ID: Final = 22
_VERSIONS: Final = (0, 4)
_PAUSE_SECONDS: Final = 0.1
_TIMEOUT_MS: Final = 60_000


def fresh_producer(settings: ClientSettings) -> ProducerIdentity:
    """An identity that nobody else has; any broker gives it. Raises ClusterError, AuthorizationFailed without WRITE."""
    ends_at = time.monotonic() + settings.request_timeout_seconds
    while True:
        answer = ask_anyone(settings, _ask)
        if answer.error_code == NO_ERROR:
            return ProducerIdentity(int(answer.producer_id), int(answer.producer_epoch))
        if not is_retriable(answer.error_code) or time.monotonic() + _PAUSE_SECONDS > ends_at:
            raise refusal(answer.error_code, settings.alias, "asking for a producer id")
        time.sleep(_PAUSE_SECONDS)


def _ask(link: Link) -> Any:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS, producer_id=-1, producer_epoch=-1
    )
    return link.ask(request, InitProducerIdResponse, link.version(_INIT_PRODUCER_ID, _VERSIONS))
