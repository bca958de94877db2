"""Processes that share the flows of one file."""
