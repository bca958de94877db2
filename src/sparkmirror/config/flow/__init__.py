"""From layers of keys to the frozen configuration of flows."""
