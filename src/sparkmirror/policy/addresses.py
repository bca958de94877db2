"""Recognises IPv6 addresses of servers that lack their brackets; pure. Used where lists of servers are checked.

Without brackets nobody knows which colon begins the port: `fe80::1:9092` is an address itself.
"""

from ipaddress import IPv6Address
from typing import Final

_USUAL_PORT: Final = 9092


def in_brackets(server: str) -> str:
    """How such an address is to be written, `[::1]:9092` for `::1:9092`; "" for all others. What may be a port is taken
    for one; an address without any gets Kafka's usual one."""
    text = server.rpartition("://")[2]
    host, _, port = text.rpartition(":")
    if port.isdigit() and _is_ipv6(host):
        return f"[{host}]:{port}"
    return f"[{text}]:{_USUAL_PORT}" if _is_ipv6(text) else ""


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
