"""Commands, one file per verb or family of verbs.

A verb declares its arguments, reads the mirror's file, calls `operations`, `runtime` or `verify`, and prints a table or
JSON by `output`. Heavy imports stay inside functions, so that `--help` is quick. `main` turns every error into a
sentence and an exit status.
"""
