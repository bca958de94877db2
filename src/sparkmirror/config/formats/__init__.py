"""The files that a mirror is described by: properties, Strimzi resources, MirrorMaker 1."""
