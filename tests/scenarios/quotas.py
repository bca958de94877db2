"""Quotas of a broker for a client id."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from tests.oracle import Client

from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.link import dial
from sparkmirror.model import Cluster


def alter_quota(client: Client, client_id: str, key: str, bytes_per_second: float | None) -> None:
    """Set a broker's quota for a client id, or remove it."""
    host, _, port = client["bootstrap.servers"].rpartition(":")
    entry = AlterClientQuotasRequest.EntryData
    link = dial(host, int(port), client_settings(Cluster("quota", dict(client)), "test"))
    try:
        change = entry.OpData(key=key, value=bytes_per_second or 0.0, remove=bytes_per_second is None)
        who = entry.EntityData(entity_type="client-id", entity_name=client_id)
        request = AlterClientQuotasRequest(entries=[entry(entity=[who], ops=[change])], validate_only=False)
        answer = link.ask(request, AlterClientQuotasResponse, 1)
        assert not answer.entries[0].error_code, answer.entries[0].error_message
    finally:
        link.close()


@contextmanager
def quota(client: Client, client_id: str, key: str, bytes_per_second: float) -> Iterator[None]:
    alter_quota(client, client_id, key, bytes_per_second)
    try:
        yield
    finally:
        alter_quota(client, client_id, key, None)
