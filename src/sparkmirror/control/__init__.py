"""The messages between planner, tasks, processes and operators: commands, assignments, their admission.

Commands are JSON records of the command topic on the target. A task obeys only the planner of its epoch, which proves
its orders by a secret.
"""
