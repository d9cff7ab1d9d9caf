"""One question: every parameter in one frozen, hashable value, which is the key of every cache."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from app.question.decisions import Prices, Search, Targets
from app.question.deployment import Deployment
from app.question.groups import FORMATS
from app.question.load import Load
from app.question.parameters import PARAMETERS, in_group
from genz_core import Parallelism, Workload
from genz_core.errors import InvalidValue
from genz_core.models.degrees import placed

LoadKind = Literal["batch", "concurrency", "rate", "trace"]
#: The kinds of load; a question has exactly one.
LOADS: tuple[LoadKind, ...] = ("batch", "concurrency", "rate", "trace")
#: Parameters of how one replica is split over devices.
SPLIT = (
    "tp", "pp", "dp", "ep", "cp", "moe_tp", "micro_batches", "sequence_parallel",
    "expert_imbalance", "redundant_experts",
)  # fmt: skip
_FORMATS = in_group(FORMATS)
#: Default relative variation of lengths around isl and osl.
VARIATION = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Question(Search, Prices, Targets, Load, Deployment):
    """A question: a deployment, its load, targets and prices, and what a search may change.

    Fields and their meaning are those of `app.question.parameters`.  `ep` is a number once the
    question is made: 1, or tp x dp / moe_tp where `moe_tp` alone was given.

    Raises:
        InvalidValue: a value outside its limits, or two loads at once.
    """

    def __post_init__(self) -> None:
        for name, one in PARAMETERS.items():
            value = getattr(self, name)
            if value is not one.default:
                object.__setattr__(self, name, _hashable(one.checked(value)))
        loads = [name for name in LOADS[1:] if getattr(self, name)]
        if len(loads) > 1:
            raise InvalidValue(
                f"give one load: a concurrency, a rate or a trace, not {' and '.join(loads)}"
            )
        if self.ep is None:
            object.__setattr__(self, "ep", self._expert_degree())

    def _expert_degree(self) -> int:
        if self.moe_tp is None:
            return 1
        ranks = self.tp * self.dp
        if ranks % self.moe_tp:
            raise InvalidValue(f"moe_tp = {self.moe_tp} does not divide tp x dp = {ranks}")
        return ranks // self.moe_tp

    @property
    def kind(self) -> LoadKind:
        """Which kind of load this is."""
        return next((name for name in reversed(LOADS[1:]) if getattr(self, name)), "batch")

    @property
    def workload(self) -> Workload:
        """The static batch."""
        return Workload(self.batch, self.isl, self.osl)

    @property
    def parallelism(self) -> Parallelism:
        """The degrees of one replica."""
        return Parallelism(
            **{name: getattr(self, name) for name in SPLIT},
            overlap=cast(Any, self.overlap),
            order=placed(self.placement.split()),
        )

    @property
    def precisions(self) -> dict[str, str]:
        """The number formats that replace the checkpoint's, by name."""
        return {name: getattr(self, name) for name in _FORMATS if getattr(self, name)}

    def changed(self) -> dict[str, Any]:
        """The parameters that differ from their defaults, in the order of declaration."""
        pairs = ((name, getattr(self, name), getattr(STANDARD, name)) for name in PARAMETERS)
        return {name: value for name, value, standard in pairs if value != standard}


STANDARD = Question()


def nominal_lengths(isl: Any, osl: Any, length_ratio: Any) -> tuple[Any, Any, Any]:
    """Longest prompt and answer of a load, and the ratio of shortest to longest.

    Lengths are uniform between the two.  With a `length_ratio` isl and osl are the longest; without
    one they are the means, and lengths vary by `VARIATION` about them: the whole numbers between
    both ends have the given mean.  Numbers or arrays; `length_ratio` None or NaN where it was not
    given.
    """
    given = np.asarray(np.nan if length_ratio is None else length_ratio, dtype=float)
    open_, ratio = np.isnan(given), (1.0 - VARIATION) / (1.0 + VARIATION)
    longest = np.where(open_, 1.0 + VARIATION, 1.0)
    longest_isl, longest_osl = ((np.asarray(mean) * longest)[()] for mean in (isl, osl))
    return longest_isl, longest_osl, np.where(open_, ratio, given)[()]


def _hashable(value: Any) -> Any:
    """Lists and arrays as tuples, mappings as tuples of pairs."""
    if isinstance(value, Mapping):
        return tuple(value.items())
    if isinstance(value, (list, np.ndarray)):
        return tuple(np.ravel(value).tolist() if isinstance(value, np.ndarray) else value)
    return value
