"""Checksums of record batches for kafka-python, in C: its own loop in Python is a fifth of what reading costs.

Called by `kafka.tail` and `kafka.publish` before they open a client.
"""

from kafka.record import default_records

from sparkmirror.batch import crc


def use_fast_checksums() -> None:
    """kafka-python finds only one package by itself, `crc32c`, whose licence is not ours to ship. Idempotent."""
    default_records.calc_crc32c = _checksum


def _checksum(data: memoryview) -> int:
    return crc.value(bytes(data))
