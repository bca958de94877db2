"""What the planner, tasks, processes and operators say to each other: commands, assignments, their admission."""
