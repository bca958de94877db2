"""Commands, one file per verb."""
