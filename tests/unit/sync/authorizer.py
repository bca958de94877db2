"""A model of Kafka's StandardAuthorizer for topics: who may do what by a set of bindings."""

from collections.abc import Collection

from sparkmirror.kafka.answers import PREFIXED, AclBinding

OPERATIONS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "ALL")
"""Those of topics."""
_IMPLIED_BY = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}, "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"}}


def may(bindings: Collection[AclBinding], principal: str, host: str, operation: str, topic: str) -> bool:
    """A denial wins; without any binding nobody may (`allow.everyone.if.no.acl.found=false`)."""
    matching = [one for one in bindings if _is_about(one, principal, host, topic)]
    if any(one.permission == "DENY" and one.operation in (operation, "ALL") for one in matching):
        return False
    enough = {operation, "ALL"} | _IMPLIED_BY.get(operation, set())
    return any(one.permission == "ALLOW" and one.operation in enough for one in matching)


def _is_about(one: AclBinding, principal: str, host: str, topic: str) -> bool:
    covers = topic.startswith(one.topic) if one.pattern == PREFIXED else one.topic in (topic, "*")
    return covers and one.principal in (principal, "User:*") and one.host in (host, "*")
