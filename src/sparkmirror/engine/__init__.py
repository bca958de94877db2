"""Wiring: session, flows, planning and life cycle."""
