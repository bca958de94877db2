"""Which members of JSON values a flow's steps read, by Spark's optimized plan. Called by `spark.record_plan`.

Spark's JSON parser takes longer for the whole of a value than all else does that a record passes. Where steps look into
values by `get_json_object` alone, the reader hands on no more of each than the members that they name
(`batch.json_members`), and Spark does the rest.
"""

import re
from typing import Any, Final

from sparkmirror.spark.plan_check import chain, class_of, listed

_MEMBER: Final = re.compile(r"\$\.([A-Za-z0-9_-]+)(?:[.\[].*)?", re.DOTALL)
"""Other paths go to arrays, to each member, or are none."""
_MEMBERS_MAX: Final = 16
_KINDS: Final = ("binary", "string")


def members_read(plan: Any, value: str) -> frozenset[str]:
    """The members that the plan reads of the column whose id is `value`; none where it reads more of it, or gives it
    away."""
    reads = _Reads(value)
    nodes = list(chain(plan))
    is_chain = nodes[-1].children().isEmpty()
    are_alone = is_chain and all(reads.are_of_members(node) for node in nodes[-2::-1])
    is_kept = are_alone and not any(reads.is_value(one) for one in listed(plan.output()))
    return frozenset(reads.members) if is_kept and len(reads.members) <= _MEMBERS_MAX else frozenset()


class _Reads:
    """What was read so far, from the source on; `_ids` are those of columns that are the value, or null."""

    def __init__(self, value: str) -> None:
        self._ids = {value}
        self.members: set[str] = set()

    def are_of_members(self, node: Any) -> bool:
        """Whether a node reads nothing else of a value; it may hand it on."""
        if class_of(node) != "Project":
            return all(map(self._reads_members, listed(node.expressions())))
        return all(map(self._hands_on, listed(node.projectList())))

    def _hands_on(self, named: Any) -> bool:
        if class_of(named) == "AttributeReference":
            return True
        if class_of(named) == "Alias" and self.is_value(named.child()):
            self._ids.add(_id_of(named))
            return self._conditions_read_members(named.child())
        return self._reads_members(named)

    def is_value(self, expression: Any) -> bool:
        """Whether it gives a value, as bytes or as text, or null; the value in at least one of its branches."""
        kind = class_of(expression)
        if kind == "AttributeReference":
            return _id_of(expression) in self._ids
        if kind == "Cast":
            return expression.dataType().simpleString() in _KINDS and self.is_value(expression.child())
        if kind != "CaseWhen":
            return False
        given = [one for one in _given(expression) if not _is_null(one)]
        return bool(given) and all(map(self.is_value, given))

    def _conditions_read_members(self, value: Any) -> bool:
        if class_of(value) == "Cast":
            return self._conditions_read_members(value.child())
        if class_of(value) != "CaseWhen":
            return True
        conditions = [branch._1() for branch in listed(value.branches())]
        return all(map(self._reads_members, conditions)) and all(map(self._conditions_read_members, _given(value)))

    def _reads_members(self, expression: Any) -> bool:
        kind = class_of(expression)
        if kind == "AttributeReference":
            return not self.is_value(expression)
        if kind in ("IsNull", "IsNotNull") and self.is_value(expression.child()):
            return self._conditions_read_members(expression.child())
        if kind == "GetJsonObject" and self.is_value(expression.json()):
            path = expression.path()
            found = _MEMBER.fullmatch(str(path.value())) if class_of(path) == "Literal" else None
            if found is None:
                return False
            self.members.add(found[1])
            return self._conditions_read_members(expression.json())
        return all(map(self._reads_members, listed(expression.children())))


def _given(case: Any) -> list[Any]:
    """What the branches of a CASE give."""
    given = [branch._2() for branch in listed(case.branches())]
    return [*given, case.elseValue().get()] if case.elseValue().isDefined() else given


def _is_null(expression: Any) -> bool:
    return class_of(expression) == "Literal" and expression.value() is None


def _id_of(named: Any) -> str:
    return str(named.exprId().toString())
