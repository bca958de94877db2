"""Connections for bulk data: a socket of our own, authenticated with kafka-python's protocol and SASL classes.

kafka-python's transport reads 4 KiB at a time (8.3 CPU seconds a GB against 1.3 for `recv_into` a prepared buffer), so
Fetch and Produce get plain sockets. `dial` blocks and is meant for a thread of its own (`Dialer`); what it returns is
ready for a selector loop. Called by `pipeline.fetch.connection`, `pipeline.produce.connection` and `kafka.wire.lookup`.
"""

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from kafka.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from sparkmirror.errors import ProtocolError
from sparkmirror.kafka.errors import translate
from sparkmirror.kafka.security.sasl import SaslSettings
from sparkmirror.kafka.settings import ClientSettings

SETUP_SECONDS_MAX = 10.0
FAR_SECONDS = 0.008
"""From this round trip on, one request at a time costs more than it is worth; brokers of one region are nearer."""
_DOUBTS = 3
_LENGTH = struct.Struct(">i")
_UNSUPPORTED_VERSION = 35
_ANSWER_BYTES_MAX = 64 << 20
"""The metadata of a hundred thousand partitions are some 10 MB; a TLS alert, read as a length, is 352 MB."""


@dataclass(slots=True)
class Link:
    """An open, authenticated connection to one broker.

    `versions` maps API keys to the broker's (lowest, highest) version, `features` the cluster's features to their
    finalized levels; `reauthenticate_at` is the monotonic time by which a SASL session must be renewed (KIP-368), or
    infinity; `round_trip_seconds` the quickest answer so far, `connect_seconds` how long TCP took to connect.
    """

    socket: socket.socket
    address: str
    versions: Mapping[int, tuple[int, int]]
    client_id: str
    reauthenticate_at: float = float("inf")
    correlation: int = 0
    round_trip_seconds: float = float("inf")
    connect_seconds: float = float("inf")
    features: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_far(self) -> bool:
        return FAR_SECONDS <= self.round_trip_seconds < float("inf")

    def note_answer(self, seconds: float) -> None:
        """Note the time of an answer. The quickest one is the round trip: slower ones waited for the broker too."""
        self.round_trip_seconds = min(self.round_trip_seconds, seconds)

    def doubt_distance(self) -> None:
        """Ask a few times more where answers come late and TCP connected at once: the kernel did that, and either a
        proxy stands between, or this process or the broker is busy. Blocks, as `ask`; raises as it does."""
        for _ in range(_DOUBTS):
            if not self.is_far or self.connect_seconds >= FAR_SECONDS:
                return
            api_versions(self)

    @property
    def is_tls(self) -> bool:
        return isinstance(self.socket, ssl.SSLSocket)

    def version(self, api: int, ours: tuple[int, int]) -> int:
        """The highest version of an API that both sides speak. Raises ProtocolError when there is none."""
        low, high = self.versions.get(api, (0, -1))
        best = min(high, ours[1])
        if best < max(low, ours[0]):
            raise ProtocolError(
                f"broker {self.address} speaks API {api} in versions {low} to {high}, we in {ours[0]} to {ours[1]}",
                "brokers from Kafka 3.0 on are supported",
            )
        return best

    def encode(self, request: Any, version: int) -> bytes:
        """The frame of the next request, one of kafka-python's."""
        self.correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self.correlation, client_id=self.client_id)
        frame: bytes = request.encode(header=True, framed=True)
        return frame

    def ask(self, request: Any, response_class: Any, version: int) -> Any:
        """Send one request of kafka-python's and block for its answer; only before the link joins a selector loop.

        Raises OSError when the connection is gone, ProtocolError for an answer that cannot be one.
        """
        frame = self.exchange(self.encode(request, version))
        try:
            return response_class.decode(frame, version=version, header=True)
        except Exception as strange:  # any exception of kafka-python's decoder
            what = f"{response_class.__name__} v{version}"
            raise ProtocolError(f"broker {self.address} sent what cannot be read as {what}: {strange}") from strange

    def exchange(self, request: bytes) -> bytes:
        """Send the frame of one request and block for that of its answer; raises as `ask`."""
        asked_at = time.monotonic()
        self.post(request)
        return self.collect(asked_at)

    def post(self, request: bytes) -> None:
        """Send the frame of one request; `collect` takes its answer. Blocks; raises OSError."""
        self.socket.sendall(request)

    def collect(self, asked_at: float = inf) -> bytes:
        """Block for the frame of the next answer; raises as `ask`. `asked_at` is monotonic, where nothing came
        between."""
        (size,) = _LENGTH.unpack(self._receive(4))
        if asked_at < inf:
            self.note_answer(time.monotonic() - asked_at)
        if not 4 <= size <= _ANSWER_BYTES_MAX:
            hint = "Is it a broker's port, and does it want TLS? See security.protocol."
            raise ProtocolError(f"broker {self.address} announced an answer of {size} bytes", hint)
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            received = self.socket.recv_into(view)
            if not received:
                raise ConnectionResetError("the broker closed the connection")
            view = view[received:]
        return bytes(data)

    def close(self) -> None:
        self.socket.close()


def dial(
    host: str,
    port: int,
    settings: ClientSettings,
    *,
    receive_bytes: int = 0,
    send_bytes: int = 0,
    seconds_max: float = SETUP_SECONDS_MAX,
) -> Link:
    """Connect, secure and authenticate; the socket comes back blocking. No step of it takes longer than `seconds_max`.

    Raises ClusterUnreachable when the broker does not answer, AuthenticationFailed when it refuses us.
    """
    address = f"{host}:{port}"
    try:
        raw, connect_seconds = _connect(host, port, receive_bytes, send_bytes, seconds_max)
    except OSError as problem:
        raise translate(problem, settings, "connecting", address) from problem
    try:
        link = Link(_secured(raw, host, settings), address, {}, settings.client_id, connect_seconds=connect_seconds)
        link.versions, link.features = api_versions(link)
        if settings.sasl:
            link.reauthenticate_at = authenticate(link, host, settings.sasl)
        return link
    except Exception as problem:
        raw.close()
        raise translate(problem, settings, "connecting", address) from problem
    except BaseException:
        raw.close()
        raise


def _secured(raw: socket.socket, host: str, settings: ClientSettings) -> socket.socket:
    context = settings.ssl_context()
    return raw if context is None else context.wrap_socket(raw, server_hostname=host)


def _connect(
    host: str, port: int, receive_bytes: int, send_bytes: int, seconds_max: float
) -> tuple[socket.socket, float]:
    """Connect to the first of the host's addresses that answers; and how long that one took. Buffers are set before:
    the window's scale is agreed then."""
    problem = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(seconds_max)
            _tune(raw, receive_bytes, send_bytes)
            began = time.monotonic()
            raw.connect(address)
            return raw, time.monotonic() - began
        except OSError as refused:
            raw.close()
            problem = refused
    raise problem


def _tune(sock: socket.socket, receive_bytes: int, send_bytes: int) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if receive_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    if send_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)


def api_versions(link: Link) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
    """The broker's versions of each API, lowest and highest, and the finalized levels of features. Raises as
    `Link.ask`."""
    for version in (3, 0):
        request = ApiVersionsRequest(client_software_name="sparkmirror", client_software_version="0")
        answer = link.ask(request, ApiVersionsResponse, version)
        if answer.error_code != _UNSUPPORTED_VERSION:
            versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            return versions, {found.name: found.max_version_level for found in answer.finalized_features or ()}
    raise ProtocolError(f"broker {link.address} does not answer ApiVersions")


def authenticate(link: Link, host: str, sasl: SaslSettings) -> float:
    """Run the SASL exchange (KIP-43, KIP-152) and return the monotonic time by which to repeat it (KIP-368).

    Raises the client's errors.
    """
    name = sasl.mechanism
    handshake = link.ask(SaslHandshakeRequest(mechanism=name), SaslHandshakeResponse, 1)
    if handshake.error_code:
        raise UnsupportedSaslMechanismError
    # kafka-python only uses the protocol to warn of clear text in its log.
    arguments = sasl.arguments()  # first: they put our mechanisms in place of kafka-python's own
    mechanism = get_sasl_mechanism(name)(host=host, security_protocol="SASL_SSL", **arguments)
    lifetime_ms = 0
    while not mechanism.is_done():
        answer = link.ask(SaslAuthenticateRequest(mechanism.auth_bytes()), SaslAuthenticateResponse, 1)
        if answer.error_code:
            raise SaslAuthenticationFailedError
        mechanism.receive(answer.auth_bytes)
        lifetime_ms = answer.session_lifetime_ms
    if not mechanism.is_authenticated():
        raise SaslAuthenticationFailedError
    return time.monotonic() + lifetime_ms * 0.85 / 1000 if lifetime_ms > 0 else float("inf")
