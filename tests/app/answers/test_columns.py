"""Every column of an answer is declared once, with the unit that its name ends in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import ridgeline

from app.answers.column import ends
from app.answers.columns import COLUMNS
from app.answers.latencies import LATENCIES
from app.benchmarks.comparison import PERCENTS, RATES
from app.dashboard import load_curves
from app.fleets import report
from app.planning import sweep_block
from app.question.parameters import PARAMETERS
from app.question.question import Question
from app.scaling.scale import shown_figures
from app.scenario import points_file
from app.scenario.setup import Setup
from profilers.serving_results import LATENCIES as MEASURED

LLAMA = "meta-llama/Llama-3.1-8B"
READS = "BAAI/bge-large-en-v1.5"
#: Name suffixes by unit; a statistic or an interval's end may precede or follow them.
SUFFIXES: Mapping[str, str] = {
    "s": r"(?<!per)_s$|^seconds$|_seconds$",
    "bytes": r"_bytes(_per_device)?$",
    "tok/s": r"tokens_per_s(_per_device)?$|^interactivity$",
    "seq/s": r"^sequences_per_s(_per_device)?$",
    "req/s": r"requests_per_s$|^rate(_per_s)?$",
    "h": r"_hours$",
    "$": r"^usd(_per_(million_tokens|mtok|month))?$",
    "$/h": r"usd_per_hour$",
    "J": r"^joules_per_token$",
    "tokens": r"(?<!million)_tokens$|^[io]sl$",
    "share": r"_share$|^share|^(utilisation|probability(_alone)?|kv_use|all_there)$",
}


def estimates() -> Iterator[str]:
    yield from ridgeline.estimate(LLAMA, tp=[1, 2], dp=1, ep=1).rows[0]
    yield from ridgeline.estimate(READS, isl=128).to_dict()
    yield from ridgeline.estimate("Qwen/Qwen2.5-VL-7B-Instruct", images=1).to_dict()
    yield from ridgeline.estimate("openai/whisper-large-v3", audio_seconds=10).to_dict()


def loads() -> Iterator[str]:
    yield from ridgeline.serve(LLAMA, concurrency=4).rows[0]
    yield from ridgeline.serve(LLAMA, rate=1.0).rows[0]
    yield from ridgeline.serve(READS, concurrency=4, isl=128, osl=1).rows[0]
    yield from load_curves.curve(Setup(Question(engine="vllm")), "rate")


def sweeps() -> Iterator[str]:
    yield from ridgeline.sweep(LLAMA, batch=[1, 2], tp=[1, 2]).rows[0]
    yield from ridgeline.sweep(READS, batch=[1, 2]).rows[0]
    yield from (*sweep_block.COLUMNS, *sweep_block.BOUNDS_COLUMNS)


def simulations() -> Iterator[str]:
    found = ridgeline.simulate(LLAMA, concurrency=2, requests=4, isl=64, osl=8, ttft_target_s=1.0)
    yield from (*found.to_dict(), *found.rows[0], *found.to_dataframe(), *found.over_time())
    below = ridgeline.simulate(
        LLAMA, rate=1, requests=4, isl=64, osl=8, turns=2, replicas=2, worth=True,
        host_cache_gib=1, disk_cache_gib=2, remote_cache_gib=3,
    )  # fmt: skip
    yield from below.to_dict()
    for rows in below.to_dict()["worth"].values():
        yield from rows[0]


def plans() -> Iterator[str]:
    found = ridgeline.plan(
        LLAMA, systems="h100", engine="vllm", rate=1.0, isl=64, osl=8, devices="1:1",
        target="ttft_p95 < 5s", kind="aggregated", top=1,
    )  # fmt: skip
    yield from found.rows[0]


def replicas() -> Iterator[str]:
    load: dict[str, Any] = {"rate": 1.0, "requests": 4, "isl": 64, "osl": 8, "mtbf_h": 0}
    yield from (row["figure"] for row in shown_figures(ridgeline.scale(LLAMA, **load)))
    yield from ridgeline.availability(LLAMA, **load, share=50, lost=0).rows[0]


def fleets() -> Iterator[str]:
    one = {"name": "chat", "model": LLAMA, "rate": 1.0, "target": "tpot < 20ms"}
    machines = [{"system": "h100", "devices": 1, "owned": True}]
    question = {"engine": "vllm", "simulate": False}
    found = ridgeline.fleet({"machines": machines, "question": question, "models": [one]})
    yield from report.shown_rows(found.to_dict())[0]


def results() -> Iterator[str]:
    """Figures that measured results are compared by."""
    for latency in MEASURED:
        statistics = ("mean", *(f"p{percent:g}" for percent in PERCENTS))
        yield from (f"{latency.removesuffix('_s')}_{what}_s" for what in statistics)
    yield from RATES


def points() -> Iterator[str]:
    yield from points_file.COLUMNS


@pytest.fixture(scope="module")
def printed() -> dict[str, set[str]]:
    verbs = (estimates, loads, sweeps, simulations, plans, replicas, fleets, results, points)
    return {verb.__name__: set(verb()) for verb in verbs}


def test_every_column_that_is_printed_is_declared(printed: dict[str, set[str]]):
    unknown = {verb: names - set(COLUMNS) for verb, names in printed.items()}
    assert not any(unknown.values()), unknown


def test_every_declared_column_is_printed_somewhere(printed: dict[str, set[str]]):
    unused = set(COLUMNS).difference(PARAMETERS, *printed.values())
    assert not unused


@pytest.mark.parametrize("unit", SUFFIXES)
def test_a_name_ends_in_the_unit_that_is_declared(unit: str):
    figures = {name: column for name, column in COLUMNS.items() if name not in PARAMETERS}
    for name, column in figures.items():
        plain = column.base or name
        assert bool(re.search(SUFFIXES[unit], plain)) == (column.unit == unit), name


def test_what_a_latency_has_is_declared_of_it():
    for latency in LATENCIES.values():
        for column in latency.columns():
            assert COLUMNS[column.name] == column
            assert column.unit == "s" and column.smaller and column.head.startswith(latency.head)


def test_ends_of_an_interval_are_of_the_figure_between_them():
    based = {column.base for column in COLUMNS.values() if column.base}
    assert {"ttft_s", "output_tokens_per_s", "usd_per_million_tokens"} <= based
    for name in based:
        low, high = (COLUMNS[end] for end in ends(name))
        assert (low.statistic, high.statistic) == ("low", "high")
        assert {low.unit, high.unit} == {COLUMNS[name].unit}


def test_a_column_has_a_head_and_one_sentence_of_help():
    for column in COLUMNS.values():
        assert column.head and re.fullmatch(r'["A-Z0-9].+\.', column.help), column


def test_a_title_names_the_unit_once():
    assert COLUMNS["ttft_p95_s"].title == "TTFT p95 [s]"
    assert COLUMNS["usd_per_hour"].title == "$/h"
    assert COLUMNS["utilisation"].title == "Utilisation"


def test_a_value_and_an_interval_are_said_in_their_unit():
    rate, cost = COLUMNS["output_tokens_per_s"], COLUMNS["usd_per_million_tokens"]
    assert rate.words(1273.4) == "1,270 tok/s" and rate.span(100, 220) == "100 to 220 tok/s"
    assert cost.span(0.5, 1.25) == "$0.500 to $1.25"
    assert COLUMNS["ttft_s"].span(float("nan"), float("nan")) == "not validated"
    assert COLUMNS["rate"].words(2.5) == "2.5 req/s"
