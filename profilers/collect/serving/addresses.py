"""Addresses of servers: whether one is on this machine, and what it answers to a GET."""

from __future__ import annotations

import http.client
import ipaddress
import socket
from urllib.parse import urlsplit

from genz_core.errors import MeasurementError
from profilers.collect.measured_model import first_line
from profilers.collect.serving.client import Server

_MOST_BYTES = 16 << 20


def require_loopback(address: str, allowed: bool = False) -> None:
    """Refuse a server on another machine unless that was allowed: a load test can harm others.

    Raises:
        MeasurementError: the address is invalid, its host is unknown, or it is not this machine.
    """
    Server(address, "")  # raises for an invalid address
    host = str(urlsplit(address).hostname)
    if allowed or host == "localhost":
        return
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        raise MeasurementError(f"the host of {address} is not known") from None
    if not all(ipaddress.ip_address(str(ip).partition("%")[0]).is_loopback for ip in found):
        raise MeasurementError(
            f"{host} is another machine; add --allow-remote if you may put load on it"
        )


def page(address: str, path: str, timeout_s: float = 10.0) -> str:
    """What a server answers to a GET, at most 16 MB of it.

    path: such as "metrics", beside the "/v1" of the address.

    Raises:
        MeasurementError: it cannot be reached, or has no such page.
    """
    server = Server(address, "", timeout_s)
    folder = urlsplit(address).path.rstrip("/").removesuffix("/v1")
    connection = server.connection()
    try:
        connection.request("GET", f"{folder}/{path}")
        response = connection.getresponse()
        if response.status != 200:
            raise MeasurementError(f"{address} has no page /{path} (HTTP {response.status})")
        return response.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise MeasurementError(f"{address}/{path} cannot be read: {first_line(error)}") from None
    finally:
        connection.close()
