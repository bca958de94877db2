"""The table of configuration keys.

Each entry has name, places, type, default and meaning; docs/keys.md is written from it, and the fields of a
flow's configuration name their entry (`reading.setting`). Keys without effect stand there with the reason.
"""
