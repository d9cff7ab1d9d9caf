"""Offload of weights or cache to host memory and disk, and the time to read it in every step.

Every step reads the offloaded bytes over the host link: weights once, the cache of all sequences
once.  Bytes beyond the host's memory lie on disk.  Transfers do not hide behind the device's work,
as in frameworks that stream layer by layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from genz_core.errors import MissingSpec
from genz_core.memory import Memory
from genz_core.types import Array, Mask, System

What = Literal["weights", "kv"]


@dataclass(frozen=True, slots=True)
class Offload:
    """Offloaded bytes of the fullest device and their cost, [configs].

    host_bytes, disk_bytes: offloaded to each.  step_s: time to read them in a step.
    fits: whether the rest fits the device.
    """

    host_bytes: Array
    disk_bytes: Array
    step_s: Array
    fits: Mask


def offload(memory: Memory, system: System, what: What) -> Offload:
    """Offload as much of the weights or of the KV cache as does not fit on the device.

    Args:
        memory: without offload.  what: "weights" or "kv".

    Raises:
        MissingSpec: the system states no host link, or no disk where host memory is too small.
    """
    if system.host_bytes_per_s is None:
        raise MissingSpec(f"{system.name} states no host link, so nothing can be offloaded over it")
    over = np.maximum(memory.total_bytes - memory.usable_bytes, 0.0)
    movable = memory.weights_bytes if what == "weights" else memory.kv_bytes
    moved = np.minimum(over, movable)
    room = np.inf if system.host_memory_bytes is None else system.host_memory_bytes
    host = np.minimum(moved, room)
    disk = moved - host
    seconds = host / system.host_bytes_per_s
    if np.any(disk > 0):
        if system.disk_bytes_per_s is None:
            raise MissingSpec(
                f"{disk.max() / 1e9:,.0f} GB do not fit the host memory of {system.name}, "
                "and it states no disk; use more devices or fewer bits a weight"
            )
        seconds = seconds + disk / min(system.disk_bytes_per_s, system.host_bytes_per_s)
    return Offload(host, disk, seconds, over <= movable)
