"""Reads the files that describe a mirror: properties, Strimzi resources, MirrorMaker 1's.

Each becomes the properties of a MirrorMaker 2 file, with the line of every key. `convert` writes them in the other
form.
"""
