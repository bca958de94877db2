"""Reads configuration files into frozen dataclasses.

`formats` reads files as properties that keep their lines, `keys` is the table of all keys, and `flow` reads the
settings of each flow through that table. `recognise` judges every line, `explain` says which line counts, `secrets`
says which values are never shown.
"""
