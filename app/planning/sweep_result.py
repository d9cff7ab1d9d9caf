"""The result of `ridgeline.sweep` over several names, a file of axes, or loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.planning import sweep_axes, sweep_file
from app.planning.sweep_axes import Sources, SweepAxes
from app.planning.sweep_block import Columns
from app.scenario.points_row import NAMES
from app.scenario.results import ResultTable, preview
from genz_core.errors import InvalidValue
from genz_core.search import pareto

if TYPE_CHECKING:
    import pandas as pd

_PLAIN = ("batch", "isl", "osl", "tp", "pp", "dp", "ep", "cp")
_YAML = (".yaml", ".yml")
_BRIEF = (
    "model", "system", "engine", "tp", "batch", "concurrency", "rate", "isl", "osl", "status",
    "ttft_s", "tpot_s", "output_tokens_per_s_per_device", "bound_decode_step_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class SweptTable(ResultTable):
    """A table of a sweep, one row a combination; `columns` holds it as arrays.

    path: where it was written, None for one that was not.
    """

    columns: Columns
    path: Path | None = None

    def __len__(self) -> int:
        return len(self.columns["status"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        return sweep_file.rows(self.columns)

    def to_dataframe(self) -> pd.DataFrame:
        """The rows as a data frame, SI units; a column a figure."""
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
        return preview(sweep_file.rows(_first(self.columns, 9)), _BRIEF) + f"\n{len(self):,} rows"


def _first(columns: Columns, most: int) -> Columns:
    return {name: values[:most] for name, values in columns.items()}


def several(arguments: Mapping[str, Any]) -> bool:
    """Whether keywords of `ridgeline.sweep` ask for more than one model on one system."""
    if _is_file(arguments["model"]):
        return True
    lists = any(isinstance(arguments.get(name), (list, tuple)) for name in NAMES)
    axes = arguments["axes"]
    return lists or any(
        name not in _PLAIN or isinstance(values, Mapping) for name, values in axes.items()
    )


def _is_file(model: Any) -> bool:
    return isinstance(model, (str, Path)) and Path(str(model)).suffix in _YAML


def sweep(
    arguments: Mapping[str, Any], output: str | Path | None, bounds_only: bool, sources: Sources
) -> SweptTable:
    """See `ridgeline.sweep`.  sources: as of `sweep_axes`.

    Raises:
        RidgelineError: as `sweep_axes` and `sweep_file.sweep`.
    """
    axes = _axes(arguments, sources)
    if output is None:
        return SweptTable(sweep_file.table(axes, bounds_only=bounds_only))
    target = Path(output)
    sweep_file.sweep(axes, target, bounds_only=bounds_only)
    return SweptTable(read(target), target)


def _axes(arguments: Mapping[str, Any], sources: Sources) -> SweepAxes:
    if _is_file(arguments["model"]):
        if arguments["axes"]:
            raise InvalidValue("a file of axes states them all: give no others beside it")
        return sweep_axes.read(Path(arguments["model"]), sources)
    return sweep_axes.sweep_axes(axes_of(arguments), sources)


def axes_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The axes of `sweep_axes` that keywords of `ridgeline.sweep` ask for."""
    given_names = {name: arguments.get(name, "") for name in NAMES}
    named = {name: value for name, value in given_names.items() if not _empty(value)}
    given = {
        name: values.tolist() if isinstance(values, np.ndarray) else values
        for name, values in arguments["axes"].items()
    }
    if "engine" in named and named["engine"] == "generic" and {"concurrency", "rate"} & set(given):
        named.pop("engine")
    return {**named, **given}


def _empty(value: Any) -> bool:
    return isinstance(value, str) and not value


def read(path: Path) -> Columns:
    """The columns of a table that was written."""
    import pandas as pd

    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    return {name: frame[name].to_numpy() for name in frame.columns}
