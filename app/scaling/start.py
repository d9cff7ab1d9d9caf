"""Start time of a replica: loading weights, compilation and graph capture, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.scenario.scenario import Resolved
from genz_core.capacity.memory import memory
from genz_core.types import Workload
from hardware_db import startup
from hardware_db.tables import SourcedFigure


@dataclass(frozen=True, slots=True)
class Start:
    """parts: name and duration of each part.  seconds: their sum, or the given value."""

    seconds: float
    parts: tuple[Mapping[str, Any], ...]

    @property
    def words(self) -> str:
        """The parts as text."""
        return ", ".join(f"{part['part']} {part['seconds']:.3g} s" for part in self.parts)


def start_of(resolved: Resolved, weights_from: str, startup_s: float) -> Start:
    """The start time of a replica.

    Every replica loads its own weights: all of its devices together, at the rate of the store.
    Parts that are unknown for an engine take no time, and are marked as unknown.

    startup_s: replaces the whole time, 0 for none.

    Raises:
        InvalidValue: an unknown store.
    """
    rate = startup.load_rate(weights_from)
    if startup_s:
        return Start(startup_s, (_part("as stated", startup_s, None),))
    held = _weight_bytes(resolved)
    parts = [_part(f"{held / 1e9:.4g} GB of weights from {weights_from}", held / rate.value, rate)]
    for figure, words in (("compile_s", "compilation"), ("capture_s", "graphs")):
        known = startup.of_engine(resolved.engine.name, figure)
        words = words if known else f"{words} of {resolved.engine.name}, not known"
        parts.append(_part(words, known.value if known else 0.0, known))
    return Start(sum(part["seconds"] for part in parts), tuple(parts))


def _weight_bytes(resolved: Resolved) -> float:
    """Bytes of the weights of a replica, on all of its devices."""
    q = resolved.scenario
    degrees = q.parallelism
    held = memory(resolved.model, resolved.system, Workload(), degrees, resolved.engine)
    return float(held.weights_bytes[0]) * q.tp * q.pp * q.dp


def _part(words: str, seconds: float, figure: SourcedFigure | None) -> dict[str, Any]:
    return {
        "part": words,
        "seconds": seconds,
        "kind": figure.kind if figure else "stated" if seconds else "unknown",
        "source": figure.source if figure else "",
        "note": figure.note if figure else "",
    }
