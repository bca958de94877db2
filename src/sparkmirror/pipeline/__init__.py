"""The path of a record through a Spark task: fetch, relay, produce."""
