"""Kafka record batches as bytes: headers, records, codecs; no I/O.

Batches that pass through are read by their 61-byte header alone (`header`, `headers`). `rewrite` decodes the others
into `columns` and encodes them again within the target's limits, and `legacy` reads messages of magic 0 and 1, which
`any_format` reads where they stand among others. Loops over bytes are machine code (`kernels`, `machine_code`); what a
batch may become unpacked is bounded (`unpacking`).
"""
