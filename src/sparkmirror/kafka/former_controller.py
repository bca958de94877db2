"""Makes a broker look for the controller of its cluster, where it takes a former one for it.

A broker that needs new producer ids asks the controller. Those of Kafka 3.0 to 3.2 in KRaft mode that ask a former one
do not understand its answer (KAFKA-14167): they answer InitProducerId with UNKNOWN, each time again, until another
request that they pass on to the controller makes them look for it. Called by all that ask for producer ids.
"""

from typing import Any, Final

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from sparkmirror.kafka.wire.link import Link

CREATE_TOPICS: Final = (19, (4, 7))
_NO_NAME: Final = "."
"""No topic can have it, so that no broker can make one."""
_TIMEOUT_MS: Final = 5_000


def look_for_controller() -> Any:
    """A request that changes nothing, and that brokers pass on to the controller. Without the right to create topics it
    may be refused before."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=_NO_NAME, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=True)


def make_look_for_controller(link: Link) -> None:
    """Its answer is of no interest: that broker is asked for a producer id again. Raises as `Link.ask`."""
    link.ask(look_for_controller(), CreateTopicsResponse, link.version(*CREATE_TOPICS))
