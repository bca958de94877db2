"""The reading end of a task: fetch sessions, responses, read-ahead."""
