"""Renders a flow for people, as data and tables; pure."""
