"""A model over several processes: tensor parallel by torchrun, results merged over the ranks.

Every rank runs `profilers.collect.rank`; a step is as long as its slowest rank.  On CPUs the
ranks talk by gloo, on GPUs by NCCL.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from genz_core.common import installation
from genz_core.common.progress import Cancel, never
from genz_core.errors import MeasurementError
from genz_core.types import Workload
from profilers.collect import programs
from profilers.collect.machine import cpu
from profilers.collect.measured_model import RunSettings, check_settings, libraries
from profilers.schema import OPERATOR_COLUMNS, DeviceInfo, Measurement, PhaseTiming, table

_LEAST_RANKS, _MOST_RANKS = 1, 64


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run over several ranks.

    measurement: each step lasts as long as on its slowest rank.  ranks: {phase: samples} of
    each rank.  skew: slowest over fastest rank, minus one, median over the steps.
    collectives: rows of the all-reduces timed between the ranks.
    """

    measurement: Measurement
    ranks: tuple[Mapping[str, tuple[float, ...]], ...]
    skew: float
    collectives: tuple[Mapping[str, Any], ...] = ()


def run_ranks(
    settings: RunSettings, ranks: int, timeout_s: float = 1800.0, cancelled: Cancel = never
) -> RankedRun:
    """Measure a model split over `ranks` processes on this machine.

    Raises:
        MeasurementError: meaningless settings, heads that the ranks do not divide, a rank that
            failed (with its last line), or a run longer than `timeout_s`.
        Cancelled: `cancelled` returned True.
    """
    check_settings(settings)
    libraries()
    if not _LEAST_RANKS <= ranks <= _MOST_RANKS:
        raise MeasurementError(f"{ranks} ranks: give {_LEAST_RANKS} to {_MOST_RANKS}")
    with tempfile.TemporaryDirectory(prefix="ridgeline-ranks-") as folder:
        run_folder = Path(folder)
        (run_folder / "settings.json").write_text(json.dumps(asdict(settings)), encoding="utf-8")
        _launch(torchrun_argv(run_folder, ranks), run_folder / "ranks.log", timeout_s, cancelled)
        results = [_rank_result(run_folder / f"rank_{rank}.json") for rank in range(ranks)]
    return merge(results, settings)


def torchrun_argv(folder: Path, ranks: int) -> list[str]:
    """The command that starts the ranks on this machine."""
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={ranks}", "-m", f"{__package__}.rank", str(folder),
    ]  # fmt: skip


def _launch(argv: Sequence[str], log: Path, timeout_s: float, cancelled: Cancel) -> None:
    """Run torchrun with its output in `log`; raise with the cause where it fails."""
    environment = {"OMP_NUM_THREADS": "1", **installation.environment()}
    code = programs.run(argv, log, "torchrun", timeout_s, cancelled, environment)
    if code != 0:
        text = log.read_text(encoding="utf-8", errors="replace")
        raise MeasurementError(f"a rank failed: {_cause(text)}")


def _cause(log: str) -> str:
    """The line of a log that names the error: one marked by a rank, else by torchrun."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    marked = [line.partition("ridgeline rank: ")[2] for line in lines if "ridgeline rank: " in line]
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return next(iter([*marked, *errors, *lines[-1:]]), "no output")[:300]


def _rank_result(path: Path) -> dict[str, Any]:
    """The result file of a rank."""
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise MeasurementError(f"{path.stem} wrote no result") from None
    return result


def merge(results: Sequence[Mapping[str, Any]], settings: RunSettings) -> RankedRun:
    """Merge the results of the ranks of a run.

    Raises:
        MeasurementError: ranks with different numbers of steps.
    """
    phases: dict[str, PhaseTiming] = {}
    ratios: list[float] = []
    for name in results[0]["phases"]:
        steps = [tuple(result["phases"].get(name, ())) for result in results]
        if len({len(samples) for samples in steps}) != 1:
            raise MeasurementError(f"the ranks took different numbers of {name} steps")
        slowest = tuple(max(step) for step in zip(*steps, strict=True))
        ratios += [max(step) / min(step) - 1.0 for step in zip(*steps, strict=True)]
        if slowest:
            phases[name] = PhaseTiming(name, slowest)
    first = results[0]
    processor = cpu()
    device = DeviceInfo(name=str(first["device"] or processor.name))
    measured = Measurement(
        source="live",
        operators=table(OPERATOR_COLUMNS, {}, 0),
        phases=phases,
        system=device,
        model=settings.name,
        engine="hf-compile" if settings.compile else "hf",
        workload=Workload(settings.batch, settings.isl, settings.osl),
        facts={"world_size": len(results), **first["facts"]},
        notes=(
            f"tensor parallel over {len(results)} ranks; a step takes as long as its slowest rank",
        ),
    )
    ranks = tuple({k: tuple(v) for k, v in result["phases"].items()} for result in results)
    skew = sorted(ratios)[len(ratios) // 2] if ratios else 0.0
    return RankedRun(measured, ranks, skew, tuple(first.get("collectives", ())))
