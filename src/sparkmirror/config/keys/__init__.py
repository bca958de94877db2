"""The table of configuration keys.

Each entry has name, places, type, default and meaning; docs/configuration.md is written from it. Keys without effect
stand there with the reason.
"""
