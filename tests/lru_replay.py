"""Hits of each tier of a cache by stack distances; shares no code with the simulator.

Requests are served one after the other.  The tiers below the device are written through, so that
each holds the blocks that were used last, as many as it has room for: a block is found there if
fewer others were used since (Mattson et al., Evaluation techniques for storage hierarchies, IBM
Systems Journal 9 (1970)).  The device shares its room with the request that runs.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from genz_core.serving.simulation import Requests


class Recency:
    """When each block was used last, and how many others were used since."""

    def __init__(self) -> None:
        self._clock = 0
        self._last: dict[int, int] = {}
        self._times: list[int] = []

    def distance(self, block: int) -> float:
        """Other blocks that were used since this one, infinite where it never was."""
        if block not in self._last:
            return float("inf")
        return len(self._times) - bisect_right(self._times, self._last[block])

    def use(self, block: int) -> None:
        if block in self._last:
            del self._times[bisect_right(self._times, self._last[block]) - 1]
        self._clock += 1
        self._last[block] = self._clock
        insort(self._times, self._clock)


def rows(load: Requests) -> list[tuple[int, int, tuple[int, ...]]]:
    """(prompt, output, identities of its blocks) of each request, for `replay`."""
    prefixes = load.prefix or [()] * len(load)
    columns = zip(load.input_tokens, load.output_tokens, prefixes, strict=True)
    return [(int(prompt), int(output), tuple(prefix)) for prompt, output, prefix in columns]


def replay(
    requests: Sequence[tuple[int, int, Sequence[int]]],
    block: int,
    device_tokens: float,
    tiers: Sequence[int],
    page: int = 16,
    reserves: bool = False,
) -> list[list[int]]:
    """Blocks that each request finds on the device and in each tier.

    requests: (prompt, output, identities of its blocks).  block: tokens of one.  device_tokens:
    that the device holds.  tiers: blocks that each holds.  page: tokens that the engine allots.
    reserves: room for the whole output is taken before the prompt is read.
    """
    below, idle, answers = Recency(), [], []  # idle: of the device, the last used last
    for prompt, output, identities in requests:
        most = (prompt - 1) // block
        found = [0] * (1 + len(tiers))
        kept = set(idle)
        for at, name in enumerate(identities[:most]):
            if at == found[0] and name in kept:
                found[0] += 1
                continue
            far = below.distance(name)
            tier = next((t for t, size in enumerate(tiers) if far < size), None)
            if tier is None:
                break
            found[1 + tier] += 1
        answers.append(found)
        hits = set(identities[: found[0]])
        idle = [name for name in idle if name not in hits]
        end = prompt + (page - 1) / 2.0 + (output if reserves else output - 1)
        read = end if reserves else prompt + (page - 1) / 2.0
        idle = _fitting(idle, (device_tokens - read) / block)
        shared = set(identities[: prompt // block])
        idle = [name for name in idle if name not in shared]
        idle = _fitting(idle, (device_tokens - end) / block)
        whole = list(identities[: (prompt + output) // block])
        idle = [name for name in idle if name not in set(whole)] + whole[::-1]
        idle = _fitting(idle, device_tokens / block)
        for name in whole[::-1]:
            below.use(name)
    return answers


def _fitting(names: list[int], blocks: float) -> list[int]:
    """The last used ones that fit."""
    most = max(int(blocks), 0)
    return names[len(names) - most :] if len(names) > most else names
