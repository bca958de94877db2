"""The writing end of a task: from rows to produce requests, acknowledgements, transactions and progress."""
