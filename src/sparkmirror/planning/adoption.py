"""Takes over logs of the target that something else has made with their source's offsets, where a person asks for it.

Called by `planning.offset_starts` and `operations.adoption_checks`; `planning.log_alignment` says what is compared,
`planning.log_proof` compares. Nothing tells whether what wrote a log has ended, and a log takes the first batch of a
producer wherever its end is. So a transaction that is open, or an end that moves meanwhile, puts the partition off, and
a record that comes later still makes it FAILED with the first batch, of which one is under way alone.
"""

from collections.abc import Sequence

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.log_edges import open_transactions
from sparkmirror.ledger.lineage import Lineage
from sparkmirror.model import TopicPartition
from sparkmirror.planning.log_alignment import LogFacts, why_unknown
from sparkmirror.planning.log_comparison import Common
from sparkmirror.planning.log_proof import LogProof, NotIdentical
from sparkmirror.policy.fillers import Hole


def adopt(
    target: Admin,
    proof: LogProof,
    where: TopicPartition,
    remote: TopicPartition,
    known: Lineage,
    samples: Sequence[Hole],
    facts: LogFacts,
) -> Lineage:
    """The lineage of the source's log where the target's log ends; `known` is that of its topic.

    Raises NotIdentical where the logs differ, ClusterError where something still writes to the target's.
    """
    began = open_transactions(target, [remote])[remote]
    if began is not None:
        raise ClusterError(
            f"a transaction is open in {remote} from offset {began} on: what writes there is to end first"
        )
    common = Common()
    for sample in samples:
        lineage = proof.compare(where, remote, known, sample, facts.source_end, common)
    if reason := why_unknown(facts, common.count):
        raise NotIdentical(reason)
    found = target.log_ends([remote]).of(remote)
    if found != facts.ends:
        raise ClusterError(
            f"{remote} grew from offset {facts.ends} to {found} meanwhile: what writes there is to end first"
        )
    return lineage
