"""The outcome of one run of a setting: figures, or the reason why there are none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from app.planning.targets import Figure, Target

#: measured: the figures are usable.  failed: the server did not start or died.  contradicts: the
#: result fails its own consistency checks.  no result: the client failed.
Status = Literal["measured", "failed", "contradicts", "no result"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run.

    figures: by target name ("ttft", "tpot_p95", "output_tokens_per_s"), SI units.
    why: reason without figures, in a sentence.  log: last lines of the server's or client's output.
    """

    status: Status
    figures: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    log: tuple[str, ...] = ()

    def value(self, figure: Figure) -> float:
        """A figure, NaN where the run has none."""
        return self.figures.get(figure.name, math.nan) if self.status == "measured" else math.nan

    def meets(self, targets: tuple[Target, ...]) -> bool:
        """Whether a measured run meets every target."""
        return self.status == "measured" and all(
            bool(target.met(np.array(self.value(target.figure)))) for target in targets
        )

    def document(self) -> dict[str, Any]:
        """The outcome as stored in the run's file."""
        return {
            "status": self.status, "figures": dict(self.figures), "why": self.why,
            "log": list(self.log),
        }  # fmt: skip


def outcome_of(document: Mapping[str, Any]) -> Outcome:
    """The outcome stored by `Outcome.document`."""
    return Outcome(
        document["status"],
        {str(name): float(value) for name, value in document["figures"].items()},
        str(document.get("why", "")),
        tuple(map(str, document.get("log", ()))),
    )
