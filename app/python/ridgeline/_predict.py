"""Predictions of one deployment: its figures, its steps and its requests."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline._made import Own, verb

if TYPE_CHECKING:
    from app.line.line_answer import Answered
    from app.question.query import Query
    from app.scenario.results import Estimate, Served
    from app.simulation.result import Simulated
    from genz_core.validity import OnError
    from model_registry.reports.counted_step import CountedStep


def ask(line: str) -> Answered:
    """Answer a question typed as a line.

    Names, numbers with units and options may come in any order.  A target, several systems or "up
    to 8 h100" give a `plan`; users or a rate give `serve`; a batch gives `estimate`; a line may
    begin with the name of a verb.

    Args:
        line: at most 1,000 characters; parameters are written as on the command line or as their
            names and values ("max-num-seqs 256", "tp4", "prefix_hits=0.5").

    Returns:
        The line with its answer: `understood` is the question as a sentence, `answer` is the return
        value of that verb's function.

    Raises:
        RidgelineError: a part of the line is not understood; the message names it and close words;
        otherwise as the verb's function.

    >>> asked = ask("llama 8b on h100 vllm 16 users 1k/256")
    >>> asked.understood
    'Serve Llama-3.1-8B for 16 users of 1,000 / 256 tokens on 1 × h100-sxm5-80gb under vllm'
    >>> asked.answer.status
    'ok'
    """
    from app.line.line_answer import answer
    from app.scenario.local_files import sources

    return answer(line, sources)


@verb()
def estimate(query: Query, on_error: OnError) -> Estimate | Served:
    """Price a static batch: TTFT, TPOT, memory and cost, each latency with its bound and interval.

    With a concurrency or a rate, the same as `serve`.  Lists and arrays give one configuration per
    element and have equal lengths; numbers may be texts, "10k" or "2Ki".

    Returns:
        The estimate: floats, or arrays where an argument was one; SI units.

    Raises:
        RidgelineError: an invalid name or size, or (`on_error="raise"`) a configuration that cannot
        run; the message suggests a remedy.

    >>> two = estimate("Qwen/Qwen3-8B", system="h200", batch=[1, 64])
    >>> bool(two.tpot_s[0] < two.tpot_s[1])
    True
    """
    from app.scenario import results

    return results.estimate(query, on_error)


@verb(instead={"trace": "simulate"})
def serve(query: Query, on_error: OnError) -> Served | Simulated:
    """Estimate a deployment under load: TTFT, TPOT and throughput by continuous batching.

    Give exactly one of concurrency, rate and trace; a trace is simulated, see `simulate`.

    Returns:
        The figures of every load: floats, or arrays where an argument was one; SI units.  For a
        trace, the simulation.

    Raises:
        RidgelineError: as `estimate`; not one of concurrency, rate and trace.

    >>> busy = serve("meta-llama/Llama-3.1-8B", system="h100", concurrency=[1, 64])
    >>> bool(busy.output_tokens_per_s[1] > busy.output_tokens_per_s[0])
    True
    """
    from app.scenario import results

    if query.verb == "simulate":
        from app.simulation import result

        return result.simulate(query)
    return results.serve(query, on_error)


@verb()
def simulate(query: Query, worth: bool) -> Simulated:
    """Simulate individual requests under the engine's scheduler: percentiles, queues, preemptions.

    Give exactly one of concurrency, rate and trace.

    Returns:
        The simulation: figures by name, SI units; `to_dataframe()` has one row per request.

    Raises:
        RidgelineError: as `estimate`; an invalid load or length, or a file that is not a trace.

    >>> busy = simulate("meta-llama/Llama-3.1-8B", system="h100", rate=4, requests=200, osl=128)
    >>> bool(busy.ttft_p50_s < busy.ttft_p99_s)
    True
    """
    from app.simulation import result

    return result.simulate(query, worth=worth)


@verb()
def ops(
    query: Query, cached_tokens: Sequence[str], input_tokens: Sequence[str], batch_size: int
) -> CountedStep:
    """Count FLOPs and bytes of every operator of one step of a model, without hardware.

    Images add their tokens to the new ones of every prompt, and the operators of the encoder.

    Returns:
        `table`, with one row per operator of one block, their total and the least storage;
        `to_dict()` is the output of `ridgeline ops --json`.

    Raises:
        RidgelineError: an invalid model, sizes or degrees; images that it cannot read.

    >>> two = ops("meta-llama/Llama-3.1-8B", cached_tokens=[1048576, 1024], input_tokens=1)
    >>> next(row.flops for row in two.table.rows if row.node == "attention")
    17196679168.0
    """
    from app.model_inside import operator_counts

    return operator_counts.count(query, cached_tokens, input_tokens, batch_size)


@verb(
    Own(
        "statistics", "str | Path | Mapping[str, Any] | Sequence[Any] | np.ndarray",
        inspect.Parameter.empty,
        "Rows routed to each expert, [steps][layers][experts] or fewer; or a file of them, JSON or "
        "CSV with layer_id, expert_id, count.",
    ),
    first=("model", "statistics"),
)  # fmt: skip
def routing(query: Query, copies: Sequence[str], statistics: Any) -> list[dict[str, Any]]:
    """The cost of uneven expert routing in a run, and the gain from redundant experts.

    Returns:
        One row per number of copies: `busiest_rank`, its rows over the mean; the figures of the
        deployment with that load; `gain`, tokens per second over those without copies.

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
        counts = decide.read_statistics(Path(statistics))
    else:
        counts = decide.counts_of(statistics)
    return decide.routing(query, counts, copies)


@verb(
    Own("output", "str | Path | None", None, "Folder that the files are written into, if any."),
)
def export(query: Query, phase: str, output: str | Path | None) -> dict[str, bytes]:
    """Make the files of a step that network simulators read: Chakra traces and a network.

    Returns:
        Contents by name: `step.RANK.et` for each device, `groups.json`, `network.yml`.

    Raises:
        RidgelineError: as `estimate`; lists, loads, or devices that do not fill the network.

    >>> sorted(export("meta-llama/Llama-3.1-8B", system="h100", tp=2))
    ['groups.json', 'network.yml', 'step.0.et', 'step.1.et']
    """
    from app.exchange import step_trace

    files = step_trace.export(query, phase)
    if output is not None:
        folder = Path(output)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return files


def chakra(path: str | Path) -> dict[str, Any]:
    """Read a Chakra execution trace: its attributes, and its operators under `rows`.

    Args:
        path: a trace, `step.0.et`.

    Raises:
        RidgelineError: a file that is not a trace, or is truncated.
    """
    from app.exchange.step_trace import read_file

    return read_file(Path(path))
