"""Refuses numbers of seconds on the command line that mean no time, before anything is asked of a cluster."""

from math import isfinite

from sparkmirror.errors import ConfigError


def check_seconds(option: str, seconds: float, *, is_above: bool = False) -> None:
    """From 0 on, or `is_above` 0. Raises ConfigError."""
    if not isfinite(seconds) or seconds < 0 or (is_above and not seconds):
        wanted = "above 0" if is_above else "from 0 on"
        raise ConfigError(f"`{option} {seconds:g}`: this takes a number of seconds {wanted}")
