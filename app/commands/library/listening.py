"""Where the servers of the command line listen."""

from __future__ import annotations

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")


def check_free(host: str, port: int) -> None:
    """Bind the address once, to see that the server can.

    Raises:
        InvalidValue: the port is taken, or the address is not of this machine.
    """
    import errno
    import socket

    from genz_core.errors import InvalidValue

    foreign = f"{host!r} is no address of this machine: give 127.0.0.1 or 0.0.0.0"
    if not host:  # to the system it is every address
        raise InvalidValue(foreign)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except UnicodeError:  # a label that no host's name can have
            raise InvalidValue(foreign) from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                message = f"port {port} of {host} is in use: give another with --port, 0 for any"
            elif error.errno == errno.EACCES:
                message = f"port {port} needs rights of the system: give one above 1023 with --port"
            else:
                message = foreign
            raise InvalidValue(message) from None
