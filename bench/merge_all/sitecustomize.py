"""On PYTHONPATH of one contestant alone, which merges batches wherever it can: `bench.contestants`."""

from sparkmirror.batch import merging

vars(merging).update(_BATCH_SECONDS=1.0, _FEW_BATCHES=2, PASSED_BYTES_MIN=merging.MERGED_BYTES_MAX)
