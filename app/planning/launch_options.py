"""Settings in launch lines, and proxies in front of servers."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

#: Port at which a deployment answers: that of its only server, or of what is in front of several.
FRONT_PORT = 8000


def first_port(servers: int) -> int:
    """Port of the first of a number of servers; the others follow."""
    return FRONT_PORT + (servers > 1)


def filled(settings: Any, values: Mapping[str, Any]) -> Any:
    """Settings of a file, with each placeholder ("{value}") replaced by its value."""
    if isinstance(settings, Mapping):
        return {name: filled(value, values) for name, value in settings.items()}
    if isinstance(settings, str) and settings.startswith("{"):
        return values[settings.strip("{}")]
    return settings


def in_front(
    flags: Mapping[str, Any], ports: Mapping[str, Sequence[int]]
) -> tuple[list[str], list[str], dict[str, str]]:
    """The proxy or router in front of servers: its line, notes and files; empty for a single
    server.

    ports: of the servers, by role ("" for replicas).
    """
    if sum(map(len, ports.values())) < 2:
        return [], [], {}
    if "prefill" not in ports:
        return [], [
            f"on port {FRONT_PORT} a router that sends each request to the least loaded replica"
        ], {}  # fmt: skip
    if "front_line" not in flags:
        return [], [str(flags["front"])], {}
    servers = {
        role: [flags["front_server"][role].format(port=port) for port in numbers]
        for role, numbers in ports.items()
    }
    words = {role: " ".join(addresses) for role, addresses in servers.items()}
    line = flags["front_line"].format(port=FRONT_PORT, **words)
    notes = ["localhost stands for the host of each server"]
    if "front_file" not in flags:
        return [line], notes, {}
    return [line], notes, {flags["front_file"]: _front_file(servers)}


def _front_file(servers: Mapping[str, Sequence[str]]) -> str:
    """TensorRT-LLM's list of servers.

    Source: https://github.com/NVIDIA/TensorRT-LLM/blob/0434b982fa3837dcab9dbef20e5335959eb19af3/docs/source/features/disagg-serving.md
    """
    document = {
        "hostname": "localhost",
        "port": FRONT_PORT,
        "backend": "pytorch",
        "context_servers": _instances(servers["prefill"]),
        "generation_servers": _instances(servers["decode"]),
    }
    return yaml.safe_dump(document, sort_keys=False)


def _instances(addresses: Sequence[str]) -> dict[str, Any]:
    return {"num_instances": len(addresses), "urls": list(addresses)}
