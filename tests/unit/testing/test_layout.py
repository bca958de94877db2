"""What server.properties says, for one broker and for many."""

from pathlib import Path

import pytest

from sparkmirror.testing.layout import (
    CONTROLLER,
    FAR,
    Listener,
    Node,
    Sasl,
    TlsFiles,
    plan_listeners,
    plan_properties,
    render_properties,
)

TLS = TlsFiles(Path("ca.pem"), Path("broker.pem"), Path("client.pem"), Path("client-key.pem"), Path("expired.pem"))


def nodes(count: int, listeners: tuple[Listener, ...]) -> list[Node]:
    names = [*(listener.name for listener in listeners), CONTROLLER]
    return [
        Node(n, Path(f"data-{n}"), {name: 20000 + 10 * n + at for at, name in enumerate(names)})
        for n in range(1, count + 1)
    ]


def test_one_broker_keeps_one_copy_and_is_its_own_quorum() -> None:
    listeners = plan_listeners(None, None)
    [node] = nodes(1, listeners)
    properties = plan_properties(node, [node], listeners)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:20010,CONTROLLER://127.0.0.1:20011"
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20010"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:20011"
    assert properties["offsets.topic.replication.factor"] == "1"


@pytest.mark.parametrize(("brokers", "factor", "in_sync"), [(2, "2", "2"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_have_as_many_copies_as_brokers_up_to_three(brokers: int, factor: str, in_sync: str) -> None:
    listeners = plan_listeners(None, None)
    cluster = nodes(brokers, listeners)
    for node in cluster:
        properties = plan_properties(node, cluster, listeners)
        assert properties["transaction.state.log.replication.factor"] == factor
        assert properties["transaction.state.log.min.isr"] == in_sync
        assert properties["controller.quorum.voters"].count("@") == brokers
        assert properties["log.dirs"] == f"data-{node.node_id}"


@pytest.mark.parametrize(
    ("tls", "sasl", "protocols"),
    [
        (None, None, ["PLAINTEXT"]),
        (TLS, None, ["PLAINTEXT", "SSL"]),
        (None, Sasl("PLAIN", "alice", "secret"), ["PLAINTEXT", "SASL_PLAINTEXT"]),
        (TLS, Sasl("PLAIN", "alice", "secret"), ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    ],
)
def test_listeners_follow_from_what_is_asked(tls: TlsFiles | None, sasl: Sasl | None, protocols: list[str]) -> None:
    assert [listener.protocol for listener in plan_listeners(tls, sasl)] == protocols


def test_a_plain_password_is_quoted_for_jaas_and_hidden_from_repr() -> None:
    sasl = Sasl("PLAIN", "alice", 'a"b\\c')
    listener = plan_listeners(None, sasl)[1]
    jaas = listener.properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
    assert jaas.endswith(r'required user_alice="a\"b\\c";')
    assert "b" not in repr(sasl).split("alice")[1]
    assert "jaas" not in repr(listener)


def test_a_scram_listener_names_no_password() -> None:
    listener = plan_listeners(None, Sasl("SCRAM-SHA-512", "alice", "secret"))[1]
    assert listener.properties["listener.name.sasl_plaintext.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert "secret" not in str(listener.properties)


def test_properties_are_escaped_as_java_reads_them() -> None:
    assert render_properties({"a": "back\\slash", "b": "two\nlines"}) == "a=back\\\\slash\nb=two\\nlines\n"


def test_a_far_listener_advertises_the_proxy_before_it() -> None:
    listeners = plan_listeners(None, None, far=True)
    node = Node(1, Path("data"), {"PLAINTEXT": 20001, FAR: 20002, CONTROLLER: 20003}, far_port=31000)
    properties = plan_properties(node, [node], listeners)
    assert "FAR://127.0.0.1:20002" in properties["listeners"]
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20001,FAR://127.0.0.1:31000"
    assert "FAR:PLAINTEXT" in properties["listener.security.protocol.map"]
