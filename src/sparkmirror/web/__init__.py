"""The status page of a running mirror: its server, what it knows, and the page itself."""
