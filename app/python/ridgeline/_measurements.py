"""Measurements: reports, results and servers compared with their prediction."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline._made import Own, verb

if TYPE_CHECKING:
    from app.benchmarks.comparison import Comparison as ComparedResults
    from app.benchmarks.guard import Guarded
    from app.question.query import Query
    from app.tuning.loop import Tuned
    from app.watching.windows import Watched
    from profilers import Comparison, Report

_FILES = "str | Path | Report | Sequence[str | Path | Report]"
_RESULTS = "str | Path | Sequence[str | Path]"


@verb(
    Own(
        "reports", _FILES, inspect.Parameter.empty, "Reports of one run, or results of benchmarks."
    ),
    Own("steps", "Mapping[str, int] | None", None, "Number of steps in a summary, by phase."),
    first=("reports", "model"),
    model="",
)
def compare(
    query: Query,
    phase: str,
    fill: bool,
    level: float,
    reports: Any,
    steps: Mapping[str, int] | None,
) -> Comparison | ComparedResults:
    """Compare profiler reports of one run, or serving benchmark results, with their prediction.

    Values that are not given are read from the files; given ones override the files.

    Returns:
        Data frames `phases`, `classes` and `operators`, and `findings` in words; no finding if
        what ran contradicts what is priced.  For results: `points`, one per measured run with a row
        per figure, and `to_dataframe`.

    Raises:
        RidgelineError: a file that cannot be read, unknown names, reports without a phase.
    """
    from app.benchmarks import file_comparison
    from app.measuring import comparison

    several: list[Any] = _listed(reports)
    if file_comparison.are_results(several):
        return file_comparison.compared(file_comparison.asked_of(several, query), level)
    read = [read_report(one) if isinstance(one, (str, Path)) else one for one in several]
    return comparison.compare_asked(
        read, query, phase=phase, steps=steps or {}, fill=fill
    ).comparison


@verb(
    Own("results", _RESULTS, inspect.Parameter.empty, "Results of a serving benchmark."),
    Own("baseline", _RESULTS, (), "Earlier results of the same loads; several are repeats."),
    first=("results", "model"),
    model="",
)
def guard(query: Query, level: float, tolerance: float, results: Any, baseline: Any) -> Guarded:
    """Judge the results of a benchmark: whether a figure is worse than predicted, or than before.

    Values that are not given are read from the files; given ones override the files.

    Returns:
        `passed`, and a verdict on every figure; `failed` holds those that are worse.

    Raises:
        RidgelineError: a file that cannot be read, or nothing that can be judged.
    """
    from app.benchmarks import file_comparison

    return file_comparison.judged(_listed(results), query, level, tolerance, _listed(baseline))[0]


@verb(
    Own("server", "str", "", "Command that starts the server: 'vllm serve {model} --port {port}'."),
    Own(
        "client", "str", "auto",
        "auto, own, aiperf, guidellm, vllm, or a command that loads {address} and writes {result}.",
    ),
    Own("folder", "str | Path | None", None, "Folder for every run; a search continues there."),
    Own(
        "measured", "Sequence[Mapping[str, Any]]", (),
        "Runs made elsewhere, each {'setting': {...}, 'figures': {...}}.",
    ),
)  # fmt: skip
def tune(
    query: Query,
    goal: str,
    runs: int,
    within: float,
    level: float,
    dry_run: bool,
    server: str,
    client: str,
    folder: str | Path | None,
    measured: Any,
) -> Tuned:
    """Find the best settings of a server with few runs.

    Parameters given as lists are varied.  Without a server and without `dry_run` nothing is run:
    the answer is the setting to run next, given the runs in `folder` or `measured`.

    Returns:
        The search: `records`, `best`, `choice` (the next setting), and `stop` (why it is over).

    Raises:
        RidgelineError: a single setting, a folder of another search, or a program that is not
        installed.

    >>> found = tune("meta-llama/Llama-3.1-8B", system="h100", concurrency=16, osl=64,
    ...              max_num_seqs=[4, 8, 16], dry_run=True)
    >>> found.best.setting["max_num_seqs"]
    16
    """
    from app.tuning.answer import answer
    from app.tuning.real_server import Commands

    commands = Commands(server, client) if server else None
    return answer(
        query, goal, runs, within, level, dry_run, commands=commands,
        folder=None if folder is None else Path(folder), measured=measured,
    )  # fmt: skip


@verb(
    Own(
        "source", "str | Path | Sequence[str | Path]", inspect.Parameter.empty,
        "Address of the server, or recordings of its metrics page.",
    ),
    Own("every", "float", 5.0, "Seconds between two looks at a live page."),
    Own("seconds", "float", 600.0, "Seconds to watch a live page."),
    first=("source", "model"),
    model="",
)  # fmt: skip
def watch(query: Query, window: float, source: Any, every: float, seconds: float) -> Watched:
    """Follow the metrics page of vLLM, SGLang or llama.cpp: when and why latencies deviate.

    Returns:
        The watch: `windows`, `events`, `alarms` with their causes, and `drift`.

    Raises:
        RidgelineError: an invalid source, or no model to compare with.
    """
    from app.watching.answer import of_recordings
    from app.watching.live import Live, of_page

    if isinstance(source, str) and "://" in source:
        return of_page(query, source, Live(window, every, seconds))
    return of_recordings(query, [Path(one) for one in _listed(source)], window)


def read_report(path: str | Path) -> Report:
    """Read a profiler's report: Nsight Systems, Nsight Compute or the PyTorch profiler.

    Raises:
        ReportError: it is none of these, or it is damaged.
    """
    import profilers

    return profilers.read_report(Path(path))


def _listed(files: Any) -> list[Any]:
    return list(files) if isinstance(files, Sequence) and not isinstance(files, str) else [files]
