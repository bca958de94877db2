"""Records that leave the steps of a flow: those that go to the dead-letter topic as they came, and misfits, for which a
step cannot be done (`spark.marked_values`). Called by `spark.record_plan` and `spark.record_function`.

Later steps leave both alone, since `__active` is not true for them. A misfit is a dead letter, with the reason in a
header, if the flow has a topic for these; otherwise, and where somebody has to do something before it can go on, its
row says why, and the writer fails its partition. The columns are those of `spark.record_plan`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmirror.config.flow.transforms import DeadLetter
from sparkmirror.pipeline.relay.schema import DEAD, MISFIT
from sparkmirror.spark.marked_values import Parted, first_of


def dead_letters(are_dead: Column, topic: str, *more: Column) -> dict[str, Column]:
    """The columns that make dead letters of these records. Headers say where they come from, named as Connect names
    them, and `more` of them stand behind those."""
    origin = [_header(name, F.col(name).cast("string")) for name in ("topic", "partition", "offset")]
    headers = F.concat("__own_headers", F.array(*origin, *more))
    return {
        "__kind": F.when(are_dead, F.lit(DEAD)).otherwise(F.col("__kind")),
        "__active": F.col("__active") & ~are_dead,
        "__own_headers": F.when(are_dead, headers).otherwise(F.col("__own_headers")),
        "__own_target_topic": F.when(are_dead, F.lit(topic)).otherwise(F.col("__own_target_topic")),
    }


def _header(name: str, text: Column) -> Column:
    return F.struct(F.lit(f"__connect.errors.{name}").alias("key"), text.cast("binary").alias("value"))


def computed(frame: DataFrame, name: str, found: Parted, dead: DeadLetter | None) -> tuple[DataFrame, Column]:
    """The expression as a column of the frame, whose misfits are set apart; as it is where there can be none."""
    if found.why is None:
        return frame, found.value
    return set_apart(frame.withColumns({name: found.value, WHY: why_of(found)}), dead), F.col(name)


WHY: Final = "__why"


def why_of(*found: Parted) -> Column:
    """Why these cannot be computed for a record, as a column that `set_apart` takes for WHY."""
    why = first_of(*(one.why for one in found))
    return F.when(F.col("__active"), F.lit(None) if why is None else why)


def set_apart(frame: DataFrame, dead: DeadLetter | None) -> DataFrame:
    """Take the records out of the steps for which the column WHY of the frame says something."""
    why = F.col(WHY)
    is_dead = F.lit(False) if dead is None else F.coalesce(~why["is_awaited"], F.lit(False))
    frame = frame.withColumns({"__misfit": why.isNotNull() & ~is_dead, "__dead": is_dead})
    if dead is not None:
        message = _header("exception.message", why["text"])
        frame = frame.withColumns(dead_letters(F.col("__dead"), dead.topic, message))
    misfit = F.col("__misfit")
    changed = {
        "__kind": F.when(misfit, F.lit(MISFIT)).otherwise(F.col("__kind")),
        "__active": F.col("__active") & ~misfit,
        "__payload": F.when(misfit, why["text"].cast("binary")).otherwise(F.col("__payload")),
    }
    return frame.withColumns(changed).drop(WHY, "__misfit", "__dead")
