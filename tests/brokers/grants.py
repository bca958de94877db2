"""ACLs made and taken away by tests; a broker knows of them a moment after the controller has answered."""

import time
from collections.abc import Callable

from tests.oracle import DEADLINE_SECONDS_LEAST

from sparkmirror.kafka.acls import create_acls, delete_acls, describe_acls
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.answers import AclBinding


def grant(admin: Admin, *bindings: AclBinding) -> None:
    assert set(create_acls(admin, bindings).values()) == {None}
    await_acls(admin, lambda there: there >= set(bindings))


def revoke(admin: Admin, *bindings: AclBinding) -> None:
    assert set(delete_acls(admin, bindings).values()) == {None}
    await_acls(admin, there_is_none_of(*bindings))


def there_is_none_of(*bindings: AclBinding) -> Callable[[set[AclBinding]], bool]:
    return lambda there: not there & set(bindings)


def await_acls(admin: Admin, is_met: Callable[[set[AclBinding]], bool]) -> set[AclBinding]:
    """What the cluster's one broker has, once that is so; fails with what it has."""
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while not is_met(there := describe_acls(admin) or set()):
        assert time.monotonic() < deadline, f"the broker of {admin.alias} has {sorted(there)}"
        time.sleep(0.02)
    return there
