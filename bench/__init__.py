"""SparkMirror against MirrorMaker 2 and against the bare loop, on this machine: `make bench` or `python -m bench`."""
