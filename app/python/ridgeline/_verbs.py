"""The verbs: what the command line answers, from one call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline._made import Own, verb

if TYPE_CHECKING:
    from app.benchmarks.comparison import Comparison as ComparedResults
    from app.benchmarks.guard import Guarded
    from app.decide.study import Study
    from app.fleets.result import Fleet
    from app.line.answering import Answered
    from app.planning.result import Planned
    from app.planning.sweep_result import SweptTable
    from app.question.asking import Asked
    from app.scaling.availability import Available
    from app.scaling.scale import Scaled
    from app.scenario.results import Estimate, Served
    from app.simulation.result import Simulated
    from app.tuning.loop import Tuned
    from app.watching.watch import Watched
    from genz_core.validity import OnError
    from model_registry.reports.counted_step import CountedStep
    from profilers import Comparison, Report

_FILES = "str | Path | Report | Sequence[str | Path | Report]"
_RESULTS = "str | Path | Sequence[str | Path]"


def ask(line: str) -> Answered:
    """Answer a question that is typed as a line.

    Names, numbers with units and options stand in any order.  A target, several systems or "up to
    8 h100" ask for a plan; users or a rate for `serve`; a batch for `estimate`; the name of a verb
    in front asks that.

    Args:
        line: at most 1,000 characters; parameters are written as on the command line or as their
            names and values ("max-num-seqs 256", "tp4", "prefix_hits=0.5").

    Returns:
        The line with its answer: `understood` is the question as a sentence, `answer` what the
        function of that verb returns.

    Raises:
        RidgelineError: something in the line is not understood, which is named with what is near;
            else as the verb's function.

    >>> asked = ask("llama 8b on h100 vllm 16 users 1k/256")
    >>> asked.understood
    'Serve Llama-3.1-8B for 16 users of 1,000 / 256 tokens on 1 × h100-sxm5-80gb under vllm'
    >>> asked.answer.status
    'ok'
    """
    from app.line.answering import answer
    from app.scenario.local_files import sources

    return answer(line, sources)


@verb()
def estimate(asked: Asked, on_error: OnError) -> Estimate | Served:
    """Price a static batch: TTFT, TPOT, memory, cost, each latency beside its bound and interval.

    With a concurrency or a rate, the same as `serve`.  Lists and arrays are configurations side by
    side, all of one length; numbers may be typed, "10k" or "2Ki".

    Returns:
        The estimate: floats, or arrays where an argument was one; SI units.

    Raises:
        RidgelineError: a name, size or degree that cannot be, or (`on_error="raise"`) a
            configuration that does not fit; the sentence says what is near and what to do.

    >>> two = estimate("Qwen/Qwen3-8B", system="h200", batch=[1, 64])
    >>> bool(two.tpot_s[0] < two.tpot_s[1])
    True
    """
    from app.scenario import results

    return results.estimate(asked, on_error)


@verb(instead={"trace": "simulate"})
def serve(asked: Asked, on_error: OnError) -> Served | Simulated:
    """Estimate a deployment under load: TTFT, TPOT and throughput by continuous batching.

    Give a concurrency, a rate or a trace, one of them; a trace is simulated, see `simulate`.

    Returns:
        The figures of every load: floats, or arrays where an argument was one; SI units.  Of a
        trace, the simulation.

    Raises:
        RidgelineError: as `estimate`; not one of concurrency, rate and trace.

    >>> busy = serve("meta-llama/Llama-3.1-8B", system="h100", concurrency=[1, 64])
    >>> bool(busy.output_tokens_per_s[1] > busy.output_tokens_per_s[0])
    True
    """
    from app.scenario import results

    if asked.verb == "simulate":
        from app.simulation import result

        return result.simulate(asked)
    return results.serve(asked, on_error)


@verb()
def simulate(asked: Asked, worth: bool) -> Simulated:
    """Serve requests one by one under the engine's scheduler: percentiles, queues, preemptions.

    Give a concurrency, a rate or a trace, one of them.

    Returns:
        The simulation: figures by name, SI units; `to_dataframe()` has one row a request.

    Raises:
        RidgelineError: as `estimate`; a load or a length that cannot be, a file that is no trace.

    >>> busy = simulate("meta-llama/Llama-3.1-8B", system="h100", rate=4, requests=200, osl=128)
    >>> bool(busy.ttft_p50_s < busy.ttft_p99_s)
    True
    """
    from app.simulation import result

    return result.simulate(asked, worth=worth)


@verb(
    Own(
        "output",
        "str | Path | None",
        None,
        "Where the table goes, .parquet or .csv; it is taken up again where it stopped.",
    )
)
def sweep(
    asked: Asked, on_error: OnError, bounds_only: bool, output: str | Path | None
) -> SweptTable:
    """Price every combination of the values of some parameters.

    Numbers take a list, "1,2,4", or a range {"from": 1, "to": 8, "step": 1}; they vary in the order
    in which they are given.  Model, system, engine and formats take several names; the model may
    also be a YAML file of axes (docs/planning.md).

    Returns:
        A table, one row a combination.

    Raises:
        RidgelineError: an axis or a value that cannot be.

    >>> table = sweep("meta-llama/Llama-3.1-8B", system="h100", batch=[1, 8, 64], tp=[1, 2])
    >>> len(table), table.rows[0]["status"]
    (6, 'ok')
    """
    from app.planning import sweep_result
    from app.scenario.local_files import sources

    return sweep_result.sweep(asked, on_error, bounds_only, output, sources)


@verb()
def plan(asked: Asked) -> Planned:
    """Find the deployments that serve a load within targets, best first.

    Give a concurrency, a rate or a trace, one of them.  Degrees, formats, engines, systems and
    other parameters that take lists are tried in all combinations.

    Returns:
        The plans as a table, and in `to_dict()` why the others lose, what would have to change
        where there is no plan, launch lines, and the measurement that would help most.

    Raises:
        RidgelineError: a name, a target or a number that cannot be.

    >>> found = plan("meta-llama/Llama-3.1-8B", system="h100", rate=4, target="tpot < 20ms")
    >>> found.best["devices"], found.best["status"]
    (1, 'ok')
    """
    from app.planning import result

    return result.plan(asked)


def fleet(given: str | Path | Mapping[str, Any]) -> Fleet:
    """Choose which of several models runs on which of several kinds of machines, by priority.

    Args:
        given: the YAML file of a fleet, or its mapping: `machines` with a system, devices, a count,
            and owned or a price each; `models`, questions of `plan` with a name and a priority;
            `question`, what these share; `budget` in dollars an hour (docs/fleets.md).

    Returns:
        Who runs where as a table; `models`, `machines`, `refusals` and `one_more` beside it.

    Raises:
        RidgelineError: a key, a name or a value that cannot be.

    >>> machines = [{"system": "h100", "devices": 8, "owned": True}]
    >>> one = {"model": "meta-llama/Llama-3.1-8B", "engine": "vllm", "target": "tpot < 20ms"}
    >>> models = [{**one, "name": "chat", "rate": 30}, {**one, "name": "rest", "rate": 400,
    ...           "priority": 2}]
    >>> found = fleet({"machines": machines, "models": models, "question": {"simulate": False}})
    >>> [model["share"] == 1.0 for model in found.models]
    [True, False]
    """
    from app.fleets import result
    from app.scenario.local_files import sources
    from hardware_db import yaml_document

    named = given if isinstance(given, Mapping) else yaml_document.read(Path(given))
    return result.fleet(named, sources)


@verb()
def ops(
    asked: Asked, cached_tokens: Sequence[str], input_tokens: Sequence[str], batch_size: int
) -> CountedStep:
    """Count FLOPs and bytes of every operator of one step of a model, without hardware.

    Images add their tokens to the new ones of every prompt, and the operators of the encoder.

    Returns:
        `table`, with a row an operator of one block, their total and the least storage;
        `to_dict()` is what `ridgeline ops --json` prints.

    Raises:
        RidgelineError: a model, sizes or degrees that cannot be; images that it cannot read.

    >>> two = ops("meta-llama/Llama-3.1-8B", cached_tokens=[1048576, 1024], input_tokens=1)
    >>> next(row.flops for row in two.table.rows if row.node == "attention")
    17196679168.0
    """
    from app.model_inside import counting

    return counting.count(asked, cached_tokens, input_tokens, batch_size)


@verb(
    Own(
        "statistics", "str | Path | Mapping[str, Any] | Sequence[Any] | np.ndarray",
        inspect.Parameter.empty,
        "Rows that each expert got, [steps][layers][experts] or fewer; or a file of them, JSON or "
        "CSV with layer_id, expert_id, count.",
    ),
    first=("model", "statistics"),
)  # fmt: skip
def routing(asked: Asked, copies: Sequence[str], statistics: Any) -> list[dict[str, Any]]:
    """What uneven experts of a run cost, and what redundant experts gain.

    Returns:
        A row a number of copies: `busiest_rank`, its rows over the mean; the figures of the
        deployment with that load; `gain`, tokens a second over those without copies.

    Raises:
        RidgelineError: as `estimate`; no `ep` of 2 or more, or counts of other experts.

    >>> counts = [[700, 100, 100, 100, 100, 100, 100, 100]]
    >>> rows = routing("mistralai/Mixtral-8x7B-v0.1", counts, system="h100", tp=4, ep=4,
    ...                copies=[0, 4])
    >>> rows[1]["busiest_rank"] < rows[0]["busiest_rank"]
    True
    """
    from app.decide import routing as decide

    if isinstance(statistics, (str, Path)):
        counts = decide.read_counts(Path(statistics).read_text(encoding="utf-8"))
    else:
        counts = decide.counts_of(statistics)
    return decide.routing(asked, counts, copies)


@verb(
    Own("output", "str | Path | None", None, "Folder that the files are written into, if any."),
)
def export(asked: Asked, phase: str, output: str | Path | None) -> dict[str, bytes]:
    """Make the files of a step that network simulators read: Chakra traces and a network.

    Returns:
        Contents by name: `step.RANK.et` a device, `groups.json`, `network.yml`.

    Raises:
        RidgelineError: as `estimate`; lists, loads, or devices that do not fill the network.

    >>> sorted(export("meta-llama/Llama-3.1-8B", system="h100", tp=2))
    ['groups.json', 'network.yml', 'step.0.et', 'step.1.et']
    """
    from app.exchange import step_trace

    files = step_trace.export(asked, phase)
    if output is not None:
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return files


def study(study: str | Path | Mapping[str, Any]) -> Study:
    """Price every combination of the chips, formats and techniques of a study.

    Args:
        study: the document (docs/studies.md), or a YAML file of it.

    Returns:
        The study: `title`, and `rows` with speed, cost, energy, memory and what binds.

    Raises:
        RidgelineError: keys, names or values that a study has not, or too many combinations.

    >>> shared = {"model": "meta-llama/Llama-3.1-8B", "system": "h200", "batch": 16}
    >>> chips = [{"name": "H200"}, {"name": "twice the bandwidth", "bandwidth": 2}]
    >>> as_it_is, faster = study({"question": shared, "chips": chips}).rows
    >>> faster["tpot_s"] < as_it_is["tpot_s"]
    True
    """
    from app.decide import study as decide
    from app.scenario.local_files import sources
    from hardware_db import yaml_document

    given = study if isinstance(study, Mapping) else yaml_document.read(Path(study))
    return decide.study(given, sources)


def chakra(path: str | Path) -> dict[str, Any]:
    """Read a Chakra execution trace: what it is of, and under `rows` its operators.

    Args:
        path: a trace, `step.0.et`.

    Raises:
        RidgelineError: a file that is no trace, or is cut.
    """
    from app.exchange.step_trace import read_file

    return read_file(Path(path))


@verb()
def sensitivity(asked: Asked) -> dict[str, Any]:
    """What the figures of a deployment answer to, its ridges, and the hardware that it needs.

    Returns:
        What `ridgeline sensitivity --json` prints.

    Raises:
        RidgelineError: as `estimate`.

    >>> found = sensitivity("meta-llama/Llama-3.1-8B", system="h100", change=10)
    >>> "bandwidth" in str(found)
    True
    """
    from app.decide import sensitivity_rows

    return sensitivity_rows.document(asked)


@verb(
    Own(
        "kept_runs", "bool", True, "Take the power that a kept run near this load measured, if any."
    )
)
def economics(asked: Asked, kept_runs: bool) -> dict[str, Any]:
    """What a deployment's tokens cost: rented, owned, over a day, against an API; energy, carbon.

    Returns:
        What `ridgeline economics --json` prints.

    Raises:
        RidgelineError: as `estimate`.

    >>> found = economics("meta-llama/Llama-3.1-8B", system="h100", concurrency=64, price=2.5)
    >>> "rent" in str(found)
    True
    """
    from app.decide import economics as decide
    from app.measuring import run_store

    return decide.economics(asked, run_store.stores() if kept_runs else ())


@verb(
    Own("server", "str", "", "Command that starts the server: 'vllm serve {model} --port {port}'."),
    Own(
        "client", "str", "auto",
        "auto, own, aiperf, guidellm, vllm, or a command that loads {address} and writes {result}.",
    ),
    Own("folder", "str | Path | None", None, "Where every run is kept, and taken up again."),
    Own(
        "measured", "Sequence[Mapping[str, Any]]", (),
        "Runs made elsewhere, each {'setting': {...}, 'figures': {...}}.",
    ),
)  # fmt: skip
def tune(
    asked: Asked,
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
    """Find the best settings of a server by few runs of it.

    Parameters that take lists are tried.  Without a server and without `dry_run` nothing is run:
    the answer says what to run next, by the runs in `folder` or `measured`.

    Returns:
        The search: `records`, `best`, `choice` (what is next), and `stop`, why it is over.

    Raises:
        RidgelineError: nothing to choose among, a folder of another search, or a program that is
            not there.

    >>> found = tune("meta-llama/Llama-3.1-8B", system="h100", concurrency=16, osl=64,
    ...              max_num_seqs=[4, 8, 16], dry_run=True)
    >>> found.best.setting["max_num_seqs"]
    16
    """
    from app.tuning.answer import answer
    from app.tuning.real_server import Commands

    commands = Commands(server, client) if server else None
    return answer(
        asked, goal, runs, within, level, dry_run, commands=commands,
        folder=None if folder is None else Path(folder), measured=measured,
    )  # fmt: skip


@verb()
def scale(asked: Asked, **extras: Any) -> Scaled:
    """Serve a load by replicas that follow it, and again by a fixed number of them.

    A rate is that of the busiest hour of a day of 24 shares (`day`); a trace is served as it was
    recorded, with `day` a day is made of it.  `replicas` is the fixed number.

    Returns:
        Both runs: printed, what the one saves and which percentiles suffer; `rows` their figures,
        `to_dataframe()` the windows of the day, `to_dict()` what `ridgeline scale --json` prints.

    Raises:
        RidgelineError: as `simulate`; limits of the autoscaler that cannot be, or targets that one
            request alone misses.

    >>> day = scale("meta-llama/Llama-3.1-8B", system="h100", engine="vllm", rate=0.05, osl=64,
    ...             day=[0] * 20 + [1] * 4, policy="keda", min_replicas=0)
    >>> day.following.figures()["replica_hours"] < 6 < day.fixed.figures()["replica_hours"]
    True
    """
    from app.scaling import scale as following

    return following.scale(asked, extras)


@verb()
def availability(asked: Asked, **extras: Any) -> Available:
    """Find how many replicas keep a share of requests within the targets, while some are lost.

    Returns:
        `bare`, the fewest with none lost; `average`, the fewest with losses as they come, None
        where no number is enough; `rows`, a row for each number.

    Raises:
        RidgelineError: as `simulate`; or `max_replicas` are too few.

    >>> found = availability("meta-llama/Llama-3.1-8B", system="h100", engine="vllm", rate=30,
    ...                      requests=1000, ttft_target_s=0.5, share=99.9)
    >>> found.bare
    2
    """
    from app.scaling import availability as enough

    return enough.availability(asked, extras)


# ------------------------------------------------------------------------------- measurements


@verb(
    Own(
        "reports", _FILES, inspect.Parameter.empty, "Reports of one run, or results of benchmarks."
    ),
    Own("steps", "Mapping[str, int] | None", None, "Steps that a summary adds up, by phase."),
    first=("reports", "model"),
    model="",
)
def compare(
    asked: Asked,
    phase: str,
    fill: bool,
    level: float,
    reports: Any,
    steps: Mapping[str, int] | None,
) -> Comparison | ComparedResults:
    """Put profiler reports of one run, or results of serving benchmarks, beside their prediction.

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
        return file_comparison.compared(file_comparison.asked_of(several, asked), level)
    read = [read_report(one) if isinstance(one, (str, Path)) else one for one in several]
    return comparison.compare_asked(
        read, asked, phase=phase, steps=steps or {}, fill=fill
    ).comparison


@verb(
    Own("results", _RESULTS, inspect.Parameter.empty, "Results of a serving benchmark."),
    Own("baseline", _RESULTS, (), "Earlier results of the same loads; several are repeats."),
    first=("results", "model"),
    model="",
)
def guard(asked: Asked, level: float, tolerance: float, results: Any, baseline: Any) -> Guarded:
    """Judge the results of a benchmark: whether a figure is worse than predicted, or than before.

    Values that are not given are read from the files; given ones override the files.

    Returns:
        `passed`, and a verdict on every figure; `failed` holds those that are worse.

    Raises:
        RidgelineError: a file that cannot be read, or nothing that can be judged.
    """
    from app.benchmarks import file_comparison

    return file_comparison.judged(_listed(results), asked, level, tolerance, _listed(baseline))[0]


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
def watch(asked: Asked, window: float, source: Any, every: float, seconds: float) -> Watched:
    """Follow the metrics page of vLLM, SGLang or llama.cpp: when and why it leaves its prediction.

    Returns:
        The watch: `windows`, `events`, `alarms` with their causes, and `drift`.

    Raises:
        RidgelineError: a source that is none, or no model to compare with.
    """
    from app.watching.answer import of_recordings
    from app.watching.live import Live, of_page

    if isinstance(source, str) and "://" in source:
        return of_page(asked, source, Live(window, every, seconds))
    return of_recordings(asked, [Path(one) for one in _listed(source)], window)


def read_report(path: str | Path) -> Report:
    """Read a profiler's report: Nsight Systems, Nsight Compute or the PyTorch profiler.

    Raises:
        ReportError: it is none of these, or it is damaged.
    """
    import profilers

    return profilers.read_report(Path(path))


def _listed(files: Any) -> list[Any]:
    return list(files) if isinstance(files, Sequence) and not isinstance(files, str) else [files]
