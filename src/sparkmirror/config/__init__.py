"""Configuration files to frozen dataclasses."""
