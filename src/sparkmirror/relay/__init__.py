"""What passes through Spark: the row schema, leases of shared memory."""
