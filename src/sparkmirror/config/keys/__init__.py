"""The table of configuration keys."""
