"""The contract between the two ends of a task: the rows, and the memory ring that their leases point into."""
