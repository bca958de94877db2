"""Kafka record batches as bytes: headers, records, codecs; no I/O."""
