"""The status page of a running mirror: its server, the state that it shows, and the page itself."""
