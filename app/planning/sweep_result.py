"""The result of `ridgeline.sweep`: a table of every combination, in memory or in a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.answers.table import Table
from app.planning import sweep_axes, sweep_file
from app.planning.sweep_axes import SweepAxes
from app.planning.sweep_block import Columns
from app.question.query import Query, Sources
from app.question.question import STANDARD
from app.scenario.results import ColumnTable, preview
from genz_core.errors import InvalidValue
from genz_core.search import pareto
from genz_core.validity import OnError, raise_for_status
from hardware_db import yaml_document

if TYPE_CHECKING:
    import pandas as pd

_YAML = (".yaml", ".yml")
_BRIEF = (
    "model", "system", "engine", "tp", "batch", "concurrency", "rate", "isl", "osl", "status",
    "ttft_s", "tpot_s", "output_tokens_per_s_per_device", "bound_decode_step_s",
)  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class SweptTable(ColumnTable):
    """A table of a sweep, one row per combination; `columns` holds it as arrays.

    path: file that it was written to, None if it was not.
    """

    columns: Columns
    path: Path | None = None

    @cached_property
    def table(self) -> Table:
        """The columns with a value in any row."""
        return sweep_file.stated(self.columns)

    def to_dataframe(self) -> pd.DataFrame:
        """Every column as a data frame, SI units."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def frontier(
        self, cost: str = "tpot_s", gain: str = "output_tokens_per_s_per_device"
    ) -> pd.DataFrame:
        """The rows that can run and that no other beats in two figures.

        Raises:
            InvalidValue: no column of that name.
        """
        for name in (cost, gain):
            if name not in self.columns:
                raise InvalidValue(f"no column {name!r}; there are {', '.join(self.columns)}")
        frame = self.to_dataframe()
        runs = frame[frame["status"] == "ok"]
        kept = pareto(runs[cost].to_numpy(float), runs[gain].to_numpy(float))
        return runs[kept]

    def __repr__(self) -> str:
        first = {name: values[:9] for name, values in self.columns.items()}
        return preview(sweep_file.stated(first), _BRIEF) + f"\n{len(self):,} rows"


def sweep(
    query: Query,
    on_error: OnError = "status",
    bounds_only: bool = False,
    output: str | Path | None = None,
    sources: Sources = dict,
) -> SweptTable:
    """The implementation of `ridgeline.sweep`.

    sources: resolves texts of models and systems; by default they are names.

    Raises:
        RidgelineError: as `sweep_axes` and `sweep_file.sweep`; a combination that cannot run
            (`on_error="raise"`).
    """
    axes = _axes(query, sources)
    if output is not None:
        target = Path(output)
        sweep_file.sweep(axes, target, bounds_only=bounds_only)
        return SweptTable(read(target), target)
    columns = sweep_file.table(axes, bounds_only=bounds_only)
    if on_error == "raise":
        raise_for_status(columns["status"], lambda at: str(columns["message"][at]))
    return SweptTable(columns)


def _axes(query: Query, sources: Sources) -> SweepAxes:
    """The sweep of a question, or of the YAML file given instead of its model."""
    named = query.named("model")
    if isinstance(named, Path) and named.suffix in _YAML:  # a text is always a name
        if query.given - {"model"} or query.question.system != STANDARD.system:
            raise InvalidValue("a sweep file states all axes: give no others in addition")
        return sweep_axes.sweep_axes(yaml_document.read(named), sources)
    return sweep_axes.of_asked(query, sources)


def read(path: Path) -> Columns:
    """The columns of a table file."""
    import pandas as pd

    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    columns: dict[str, Any] = {name: frame[name].to_numpy() for name in frame.columns}
    return columns
