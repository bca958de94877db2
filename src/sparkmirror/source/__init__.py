"""The reading end: which task reads what, fetch sessions, the Spark reader."""
