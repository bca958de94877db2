"""The writing end of a task: from rows to produce requests, acknowledgements, transactions and progress.

`writer` takes Spark's rows, `sender` owns all sockets on a thread of its own. `produce_task` applies what its parts ask
for: among them `gate` decides what comes next in a partition, `buffer` holds its queued records, `progress` stores
positions after acknowledgement.
"""
