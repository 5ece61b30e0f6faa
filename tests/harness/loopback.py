"""Where servers of a cluster listen."""

import contextlib
import secrets
import socket


def own_address() -> str:
    """A loopback address that nobody else uses, so that a free port stays free until its server starts (again).

    On 127.0.0.1 the port of a server that is being restarted may meanwhile go to any outgoing connection.
    """
    return f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"


def free_ports(address: str, count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        # All are held until the last is found: none is found twice.
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((address, 0))
        return [each.getsockname()[1] for each in sockets]
