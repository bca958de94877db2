"""Turns layers of keys into the frozen configuration of flows.

`flows` is the only reader of configuration; `settings` has the parts of a flow, `flow_choice` the choices that are
refused, `transforms` the steps of a flow with transforms.
"""
