"""Two ends of a TCP connection on the loopback: the kernel notes when what is read has come, for no other kind."""

import socket


def connected_sockets() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    for one in (ours, theirs):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs
