"""Pure rules: how remote topics are named and which topics take part.

Loops, losses, rates and starts have their rules here too. A user's own classes, in Python or Java, take the place of
MirrorMaker's by `own`.
"""
