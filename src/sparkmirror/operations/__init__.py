"""What people do to a mirror beside running it: failover, failback, migration, offsets, inspection."""
