"""Groups on a cluster: whether somebody is a member. Called by `engine.run` before it starts a flow."""

from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.errors import translate

_LIVE_STATES = frozenset({"stable", "preparingrebalance", "completingrebalance", "assigning", "reconciling"})


def has_members(admin: Admin, group: str) -> bool:
    """Whether the group has live members, by ListGroups: unlike a describe, it wakes no coordinator up.

    Raises ClusterError.
    """
    try:
        groups = admin.connection.client.list_groups()
    except Exception as error:
        raise translate(error, admin.connection.settings, f"looking for group {group}") from error
    return any(
        found["group_id"] == group and str(found.get("group_state", "")).lower() in _LIVE_STATES for found in groups
    )
