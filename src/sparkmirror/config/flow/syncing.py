"""Settings of the jobs that keep remote topics in step: what `runtime.jobs` makes the rules of `sync` from.

Read by `config/flow/flows.py`. Names and meanings are MirrorMaker's, see `config/keys/sync_keys.py`.
"""

from dataclasses import dataclass

from sparkmirror.config.keys import sync_keys as keys
from sparkmirror.config.reading import Reader
from sparkmirror.policy.own import OwnClasses, OwnConfigs

LOOK_SECONDS = 5.0
"""How often to look for changes where that is cheap."""
TOPICS_LOOK_SECONDS = 2.0
"""For new topics: their first record is to be on the target within five seconds."""


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Settings and ACLs of a flow's remote topics. Intervals say how long a change may go unnoticed at most."""

    configs_enabled: bool = keys.SYNC_TOPIC_CONFIGS.default
    configs_interval_seconds: int = keys.SYNC_TOPIC_CONFIGS_INTERVAL.default
    configs_exclude: tuple[str, ...] = keys.CONFIG_PROPERTIES_EXCLUDE.default
    configs_protect: tuple[str, ...] = keys.SYNC_TOPIC_CONFIGS_PROTECT.default
    defaults_from: str = keys.USE_DEFAULTS_FROM.default
    acls_enabled: bool = keys.SYNC_TOPIC_ACLS.default
    acls_interval_seconds: int = keys.SYNC_TOPIC_ACLS_INTERVAL.default
    acls_operations: str = keys.SYNC_TOPIC_ACLS_OPERATIONS.default
    acls_revoke: bool = keys.SYNC_TOPIC_ACLS_REVOKE.default
    own_configs: OwnConfigs | None = None


def read_sync(flow: Reader, own: OwnClasses) -> SyncSettings:
    """The settings of a flow's layer; `own` makes classes of the user's."""
    return SyncSettings(
        configs_enabled=flow.read(keys.SYNC_TOPIC_CONFIGS),
        configs_interval_seconds=flow.read(keys.SYNC_TOPIC_CONFIGS_INTERVAL),
        configs_exclude=flow.read(keys.CONFIG_PROPERTIES_EXCLUDE),
        configs_protect=flow.read(keys.SYNC_TOPIC_CONFIGS_PROTECT),
        defaults_from=flow.read(keys.USE_DEFAULTS_FROM),
        acls_enabled=flow.read(keys.SYNC_TOPIC_ACLS),
        acls_interval_seconds=flow.read(keys.SYNC_TOPIC_ACLS_INTERVAL),
        acls_operations=flow.read(keys.SYNC_TOPIC_ACLS_OPERATIONS),
        acls_revoke=flow.read(keys.SYNC_TOPIC_ACLS_REVOKE),
        own_configs=flow.load(keys.CONFIG_FILTER_CLASS, own.configs),
    )
