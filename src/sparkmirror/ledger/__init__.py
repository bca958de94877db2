"""The durable progress of a flow.

Positions are stored in Connect's format and in our own with the log that they belong to (`lineage`); gaps and exact
offset maps beside them. Folding and translating records is pure; `reader` and `setup` do the I/O.
"""
