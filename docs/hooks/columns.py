"""The page of result columns: each once, from its declaration, with the verbs that give it.

Which verb gives a column is found by asking: `GIVEN` has example questions of each verb, and a test
checks that together they give every declared column and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from genz_core.common.cells import markdown_row

_HEAD = """# Result columns

{made}A result's columns have the same names in the command line's `--json` and CSV, in files, in
Python, over REST and MCP; pages show the title. A name ends in its unit, and units are SI. "lower"
and "higher" say which values are better. Columns with `_low` or `_high` at the end or before the
unit are the ends of an 80 % interval; they are empty where a figure is not validated.

The last column names the verbs whose answers to the example questions of this site contain the
column; "points" is `ridgeline estimate --points FILE --output FILE`. The columns of an answer also
depend on the question: `encoder_s` needs a model with an encoder, a percentile needs a simulation.
`ask` gives the columns of the verb that it chooses, `guard` those of `compare`.

"""
_LLAMA, _ENCODER = "meta-llama/Llama-3.1-8B", "BAAI/bge-large-en-v1.5"
_BETTER = {"low": "lower", "high": "higher", "": ""}


def columns_page(made: str) -> str:
    """The page; made: the line that says where it comes from."""
    from app.answers.columns import COLUMNS
    from app.answers.figures import FIGURES, NUMBERS, TEXTS
    from app.answers.latencies import latency_columns
    from app.question.parameters import PARAMETERS

    given = {verb: set(names()) for verb, names in GIVEN.items()}
    latencies = {one.name for one in latency_columns()}
    figures = {one.name for one in COLUMNS.values() if (one.base or one.name) in FIGURES}
    parts = [_HEAD.format(made=made)]
    for title, names in (
        ("Latencies", latencies),
        ("Throughput, cost and memory", figures),
        ("Other numbers", set(NUMBERS)),
        ("Texts", set(TEXTS)),
    ):
        head = (
            "| column | title | unit | better | meaning | given by |\n|---|---|---|---|---|---|\n"
        )
        rows = (_row(one, given) for one in COLUMNS.values() if one.name in names)
        parts.append(f"## {title}\n\n{head}{''.join(rows)}\n")
    own = latencies | figures | {*NUMBERS, *TEXTS}
    repeated = [name for name in PARAMETERS if name in set().union(*given.values()) - own]
    parts.append(
        "## Parameters\n\nResults repeat some parameters of the question under their own "
        f"[names](parameters.md): {', '.join(f'`{name}`' for name in repeated)}.\n"
    )
    return "".join(parts)


def _row(one: Any, given: Mapping[str, set[str]]) -> str:
    verbs = ", ".join(verb for verb, names in given.items() if one.name in names)
    cells = (f"`{one.name}`", one.head, one.unit, _BETTER[one.better], one.help, verbs)
    return f"{markdown_row(cells)}\n"


def _estimate() -> Iterator[str]:
    import ridgeline

    yield from ridgeline.estimate(_LLAMA, tp=[1, 2], dp=1, ep=1).rows[0]
    yield from ridgeline.estimate(_ENCODER, isl=128).to_dict()
    yield from ridgeline.estimate("Qwen/Qwen2.5-VL-7B-Instruct", images=1).to_dict()
    yield from ridgeline.estimate("openai/whisper-large-v3", audio_seconds=10).to_dict()


def _serve() -> Iterator[str]:
    import ridgeline

    yield from ridgeline.serve(_LLAMA, concurrency=4).rows[0]
    yield from ridgeline.serve(_LLAMA, rate=1.0).rows[0]
    yield from ridgeline.serve(_ENCODER, concurrency=4, isl=128, osl=1).rows[0]


def _sweep() -> Iterator[str]:
    import ridgeline

    from app.planning import sweep_block

    yield from ridgeline.sweep(_LLAMA, batch=[1, 2], tp=[1, 2]).rows[0]
    yield from ridgeline.sweep(_ENCODER, batch=[1, 2]).rows[0]
    yield from (*sweep_block.COLUMNS, *sweep_block.BOUNDS_COLUMNS)


def _simulate() -> Iterator[str]:
    import ridgeline

    found = ridgeline.simulate(_LLAMA, concurrency=2, requests=4, isl=64, osl=8, ttft_target_s=1.0)
    yield from (*found.to_dict(), *found.rows[0], *found.to_dataframe(), *found.over_time())
    below = ridgeline.simulate(
        _LLAMA, rate=1, requests=4, isl=64, osl=8, turns=2, replicas=2, worth=True,
        host_cache_gib=1, disk_cache_gib=2, remote_cache_gib=3,
    )  # fmt: skip
    yield from below.to_dict()
    for rows in below.to_dict()["worth"].values():
        yield from rows[0]


def _plan() -> Iterator[str]:
    import ridgeline

    found = ridgeline.plan(
        _LLAMA, systems="h100", engine="vllm", rate=1.0, isl=64, osl=8, devices="1:1",
        target="ttft_p95 < 5s", kind="aggregated", top=1,
    )  # fmt: skip
    yield from found.rows[0]


_REPLICAS: dict[str, Any] = {"rate": 1.0, "requests": 4, "isl": 64, "osl": 8, "mtbf_h": 0}


def _scale() -> Iterator[str]:
    import ridgeline

    from app.scaling.scale import shown_figures

    yield from (row["figure"] for row in shown_figures(ridgeline.scale(_LLAMA, **_REPLICAS)))


def _availability() -> Iterator[str]:
    import ridgeline

    yield from ridgeline.availability(_LLAMA, **_REPLICAS, share=50, lost=0).rows[0]


def _fleet() -> Iterator[str]:
    import ridgeline

    from app.fleets import report

    one = {"name": "chat", "model": _LLAMA, "rate": 1.0, "target": "tpot < 20ms"}
    machines = [{"system": "h100", "devices": 1, "owned": True}]
    question = {"engine": "vllm", "simulate": False}
    found = ridgeline.fleet({"machines": machines, "question": question, "models": [one]})
    yield from report.shown_rows(found.to_dict())[0]


def _compare() -> Iterator[str]:
    """Figures that results of serving benchmarks are compared by."""
    from app.benchmarks.comparison import PERCENTS, RATES
    from profilers.serving_results import LATENCIES

    for latency in LATENCIES:
        statistics = ("mean", *(f"p{percent:g}" for percent in PERCENTS))
        yield from (f"{latency.removesuffix('_s')}_{what}_s" for what in statistics)
    yield from RATES


def _points() -> Iterator[str]:
    from app.scenario import points_file

    yield from points_file.COLUMNS


#: Names of the columns of example answers, by verb.
GIVEN: Mapping[str, Callable[[], Iterator[str]]] = {
    "estimate": _estimate,
    "serve": _serve,
    "sweep": _sweep,
    "simulate": _simulate,
    "plan": _plan,
    "scale": _scale,
    "availability": _availability,
    "fleet": _fleet,
    "compare": _compare,
    "points": _points,
}
