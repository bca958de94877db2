"""What is done to kafka-python before a client of it is made: its log is silenced, and its register of response classes
made safe for threads. Used wherever a client is made.

The register (`kafka.protocol.api_header.ResponseClassRegistry`, 3.0.12) holds its classes weakly, and each class that
stands for one version of a response takes the place of the class that it was made from. Where two threads make the same
one, the loser's may be the one that is registered; it is dropped, and each later request of that API raises
ReferenceError.
"""

import logging
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry


def prepare_clients() -> None:
    """Idempotent. kafka-python logs connection settings, passwords included, at debug, and each retry at error. Of
    response classes only those that stand for all versions are registered from here on: their modules hold them."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    if ResponseClassRegistry.register_response_class.__func__ is not _register:
        ResponseClassRegistry.register_response_class = classmethod(_register)


def _register(registry: Any, response_class: Any) -> None:
    if getattr(response_class, "_class_version", None) is None:
        registry._response_class_registry[response_class.API_KEY] = response_class
