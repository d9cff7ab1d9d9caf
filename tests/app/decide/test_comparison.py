"""Setups side by side: one difference, the right winner, words that match the numbers."""

from __future__ import annotations

import json
import math

import plotly.graph_objects as go
import plotly.io
import pytest

from app.charts import setups as charts
from app.charts import style
from app.decide import comparison
from app.decide.comparison import HEADLINES, USE_CASES
from app.question.question import Question
from app.scenario.intervals import Ranged
from app.scenario.scenario import resolve
from app.scenario.served_rows import served
from app.scenario.setup import Setup, resolve_setup
from genz_core.errors import InvalidValue

BASE = Setup(Question(model="Qwen/Qwen3-32B", engine="vllm", tp=2, concurrency=32))


def table_of(**values: float) -> dict[str, dict[str, Ranged]]:
    """A table whose only finite headline is TTFT."""
    return {
        name: {headline: Ranged(math.nan) for headline in HEADLINES}
        | {"ttft_s": Ranged(seconds, 0.9 * seconds, 1.1 * seconds)}
        for name, seconds in values.items()
    }


@pytest.mark.parametrize(("axis", "names"), [
    ("system", ("h100", "h200")), ("engine", ("vllm", "sglang")),
    ("engine_version", ("0.6.3", "0.19.0")),
    ("model", ("Qwen/Qwen3-8B",)), ("use", tuple(USE_CASES)),
])  # fmt: skip
def test_only_what_is_compared_differs(axis: str, names: tuple[str, ...]):
    for name, setup in comparison.setups(BASE, axis, names).items():
        changed = {
            key: value
            for key, value in setup.scenario.changed().items()
            if BASE.scenario.changed().get(key) != value
        }
        assert set(changed) <= ({"isl", "osl"} if axis == "use" else {axis}), name


def test_figures_are_those_of_serving_the_setup():
    found = comparison.figures(resolve_setup(BASE))
    load = served(resolve(BASE.scenario))
    assert found["tpot_s"].value == pytest.approx(float(load.tpot_s[0]))
    assert found["tpot_s"].low <= found["tpot_s"].value <= found["tpot_s"].high
    hourly = 2 * resolve(BASE.scenario).system.price_usd_per_hour
    assert found["usd_per_mtok"].value == pytest.approx(
        hourly / 3600 / float(load.output_tokens_per_s[0]) * 1e6
    )


def test_what_does_not_fit_is_never_the_best():
    big = Setup(Question(model="meta-llama/Llama-3.1-70B", system="l4", concurrency=1))
    table = {name: comparison.figures(resolve_setup(s)) for name, s in
             {"fits": BASE, "does not": big}.items()}  # fmt: skip
    assert math.isnan(table["does not"]["ttft_s"].value)
    assert comparison.best(table, "ttft_s") is None


def test_the_best_is_the_least_latency_and_the_verdict_says_by_how_much():
    table = table_of(slow=0.2, fast=0.1, middle=0.104)
    assert comparison.best(table, "ttft_s") == "fast"
    (line,) = comparison.verdict(table)
    assert "fast is best" in line and "3.8 % less than middle" in line
    assert line.endswith("their intervals overlap")
    (apart,) = comparison.verdict(table_of(slow=0.2, fast=0.1))
    assert apart.endswith("their intervals lie apart") and "50 % less" in apart


def test_a_better_one_that_is_not_validated_is_named_as_such_and_nothing_is_less_than_it():
    table = table_of(slow=0.2, fast=0.1)
    table["unsure"] = {**table["fast"], "ttft_s": Ranged(0.05)}
    (line,) = comparison.verdict(table)
    assert "fast is best with 100 ms, 50 % less than slow" in line
    assert line.endswith("; unsure 50.0 ms, not validated")
    table["unsure"]["ttft_s"] = Ranged(0.15)  # no better, and so no rival either
    assert comparison.verdict(table) == comparison.verdict(table_of(slow=0.2, fast=0.1))


def test_equals_have_no_best():
    assert comparison.best(table_of(a=0.1, b=0.1), "ttft_s") is None


def test_unknown_uses_and_axes_are_refused():
    with pytest.raises(InvalidValue, match="choose Question answering"):
        comparison.setups(BASE, "use", ["poetry"])
    with pytest.raises(InvalidValue, match="choose system"):
        comparison.setups(BASE, "colour", ["red"])


@pytest.mark.parametrize("look", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_plotly_reads_the_charts(look):
    engines = comparison.setups(BASE, "engine", ["vllm", "generic"])
    table = {name: comparison.figures(resolve_setup(one)) for name, one in engines.items()}
    figures = [charts.headline(table, name, look) for name in HEADLINES]
    parts = {"weights_bytes": 1e9, "kv_bytes": 2e9, "activations_bytes": 3e8, "reserve_bytes": 0.0}
    figures.append(charts.memory({"a": parts, "b": parts}, [80e9, 80e9], look))
    for figure in figures:
        read = json.loads(plotly.io.to_json(figure.document(), validate=False))
        assert json.loads(go.Figure(read).to_json()) == read


def test_what_nothing_validates_is_never_the_best():
    known, unknown = Ranged(2.0, 1.5, 2.5), Ranged(1.0)
    table = {"a": {"tpot_s": known}, "b": {"tpot_s": Ranged(3.0, 2.0, 4.0)},
             "c": {"tpot_s": unknown}}  # fmt: skip
    assert comparison.best(table, "tpot_s") == "a"
    assert comparison.best({"a": {"tpot_s": known}, "c": {"tpot_s": unknown}}, "tpot_s") is None


@pytest.mark.parametrize(("slow", "kind"), [(0.5, "log"), (0.15, None)])
def test_values_far_apart_have_a_logarithmic_axis(slow: float, kind: str | None):
    table = table_of(fast=0.01, slow=slow)
    axis = charts.headline(table, "ttft_s", style.LIGHT).document()["layout"]["xaxis"]
    assert axis.get("type") == kind


def test_a_model_that_reads_has_latency_and_sequences_and_the_price_of_what_it_reads():
    one = Question(model="google-bert/bert-base-uncased", system="t4", isl=256, concurrency=8)
    found = comparison.figures(resolve(one))
    known = {name for name, figure in found.items() if math.isfinite(figure.value)}
    assert known == {"latency_s", "sequences_per_s_per_device", "usd_per_million_tokens",
                     "memory_bytes"}  # fmt: skip
    rent = resolve(one).system.price_usd_per_hour
    tokens = found["sequences_per_s_per_device"].value * 256 * 3600
    assert found["usd_per_million_tokens"].value == pytest.approx(rent / tokens * 1e6)
