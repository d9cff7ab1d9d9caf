"""Equal replicas of a closed loop: each has as many users as another, or one more."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from genz_core.serving.traffic import MEANS
from genz_core.types import Array, Num

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Figures = TypeVar("Figures", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class UsersOfReplicas:
    """Users of each replica, [loads].

    more: of the fullest replicas.  fewer: of the others, at least one.  fullest, others: their
    numbers; a replica without users is neither.
    """

    more: Array
    fewer: Array
    fullest: Array
    others: Array

    @classmethod
    def of(cls, users: Num, replicas: Num) -> UsersOfReplicas:
        """`users` of the whole deployment, spread evenly over `replicas`."""
        users, replicas = np.asarray(users, dtype=float), np.asarray(replicas, dtype=float)
        more, fewer = np.ceil(users / replicas), np.floor(users / replicas)
        fullest = np.where(more > fewer, users - fewer * replicas, replicas)
        others = np.where(fewer > 0, replicas - fullest, 0.0)
        return cls(more, np.maximum(fewer, 1.0), fullest, others)

    def together(self, full: Figures, less: Figures) -> Figures:
        """Figures of all replicas from those of one.

        Throughput and running sequences are totals; latencies and their bounds are means over
        requests; all else is that of the fullest replica.

        full, less: `ServingEstimate`, or figures named as there, of a replica with `more` and
            `fewer` users, [loads].
        """
        per_s = self.fullest * _of(full, "output_tokens_per_s")
        of_others = self.others * _of(less, "output_tokens_per_s")
        total = per_s + of_others
        share = np.where(self.others > 0.0, of_others / total, 0.0)
        changed: dict[str, Any] = {
            field.name: (1.0 - share) * _of(full, field.name) + share * _of(less, field.name)
            for field in fields(full)
            if field.name in MEANS
        }
        running = self.fullest * _of(full, "running") + self.others * _of(less, "running")
        return replace(full, **changed, output_tokens_per_s=total, running=running)


def _of(figures: Any, name: str) -> Array:
    return np.asarray(getattr(figures, name), dtype=float)
