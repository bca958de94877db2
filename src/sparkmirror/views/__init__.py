"""What people are shown of a flow, as data and tables; pure."""
