"""A running mirror: its flows, jobs, reports and life cycle."""
