"""Without a measurement in a category there is no interval; a number out of range widens it."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import ridgeline
from hypothesis import given, settings
from hypothesis import strategies as st

import hardware_db
import model_registry
from app.engine_fit.measured_facts import measured_facts
from app.question import comparison
from app.question.comparison import of_split
from app.question.evidence import Evidence
from app.question.measured_ranges import measured
from app.question.question import Question
from app.scenario import intervals, operator_intervals, points_file, served_rows, summary
from app.scenario.scenario import estimate, estimate_resolved, resolve
from genz_core import Parallelism
from genz_core.precision import FORMATS
from hardware_db.intervals import WIDEST, Interval, growth, wider
from hardware_db.tables import table
from tests.draws import cases
from tests.rules import for_every

BASE = Question(engine="vllm", batch=8)
EXPERTS = Question(model="Qwen/Qwen3-30B-A3B", engine="vllm", batch=8, tp=4)
LATENCIES = ("ttft_s", "tpot_s", "e2e_s")


def facts(scenario: Question) -> dict:
    resolved = resolve(scenario)
    return summary.facts(resolved, estimate_resolved(resolved)).row()


# ------------------------------------------------------------------------------- what was measured


@pytest.mark.slow
def test_the_table_is_counted_in_the_measurements_that_ship():
    again = [{name: str(cell) for name, cell in row.items()} for row in measured_facts()]
    assert again == [dict(row) for row in table("engines", "measured")]


def test_ranges_hold_every_measured_run_and_no_more():
    rows = list(table("measurements", "serving"))
    users = [float(row["concurrency"]) for row in rows]
    assert measured("served").ranges["users"] == (min(users), max(users))
    batches = [float(row["batch"]) for row in table("measurements", "published")]
    assert measured("batch").ranges["batch"] == (min(batches), max(batches))


def test_an_engine_with_few_runs_has_the_ranges_of_all():
    assert measured("batch", "mlx") == measured("batch")
    assert measured("served", "vllm") != measured("served")


def test_an_engine_that_was_measured_in_single_steps_has_the_output_lengths_of_all():
    assert "osl" not in measured("batch", "llama.cpp").ranges
    row = facts(Question(engine="llama.cpp", system="rtx-4090", weights="q4_0", osl=256))
    assert "beyond the measured range" not in row["message"]
    far = facts(Question(engine="llama.cpp", system="rtx-4090", weights="q4_0", osl=4096))
    assert "above 2,048 output tokens" in far["message"]


def test_every_measured_run_is_within_what_was_measured():
    """No measured run lies outside the ranges that include it, or has an unmeasured category."""
    rows = [dict(row) for row in table("measurements", "published")][::9]
    for row in points_file.price(rows):
        assert "no measured run had" not in row["message"], row
        assert "beyond" not in row["message"], row


# ------------------------------------------------------------------------------- categories


@pytest.mark.parametrize(
    ("scenario", "category"),
    [
        (replace(BASE, cp=8), "context parallelism"),
        (replace(BASE, pp=8), "pipeline parallelism"),
        (replace(BASE, kv="int4"), "int4 caches"),
        (replace(BASE, weights="int2"), "int2 weights"),
        (replace(BASE, weights="int8", activations="int8"), "int8 activations"),
        (replace(BASE, compute="fp8"), "arithmetic forced to fp8"),
        (replace(BASE, tp=2, cp=2, placement="cp tp"), "a placement of the parallelism degrees"),
        (replace(EXPERTS, overlap="two_batch", ep=4), "overlapped all-to-all"),
        (replace(EXPERTS, expert_imbalance=4.0, ep=4), "unevenly loaded experts"),
        (replace(EXPERTS, redundant_experts=32, ep=4), "redundant experts"),
        (replace(EXPERTS, ep=4), "expert parallelism"),
        (replace(BASE, model="google/gemma-3-27b-it", images=2), "images"),
        (replace(BASE, model="BAAI/bge-m3"), "encoder models"),
    ],
)
def test_a_category_that_nobody_measured_has_no_interval_and_is_named(scenario, category):
    row = facts(scenario)
    first = "latency_s" if "encoder" in category else "ttft_s"
    assert math.isnan(row[first.replace("_s", "_low_s")])
    assert first in row["not_validated"].split()
    assert "not validated: no measured run had " in row["message"] and category in row["message"]


def test_what_was_measured_keeps_its_interval():
    for scenario in (BASE, replace(BASE, tp=8), replace(BASE, weights="fp8", kv="fp8")):
        row = facts(scenario)
        assert row["not_validated"] == "" and "no measured run had" not in row["message"]
        assert row["tpot_low_s"] < row["tpot_s"] < row["tpot_high_s"]


def test_a_device_and_a_model_without_runs_keep_an_interval():
    row = facts(replace(BASE, model="ibm-granite/granite-3.1-8b-instruct", system="rtx-5090"))
    assert row["not_validated"] == "" and row["tpot_low_s"] < row["tpot_high_s"]


_WITHOUT_RUNS = {
    "tpu-v6e": "a TPU",
    "xeon-6767p": "a CPU",
    "cerebras-wse-3": "a Cerebras NPU",
    "cloud-ai100-ultra": "a Qualcomm NPU",
}


@for_every(sorted(_WITHOUT_RUNS))
def test_a_kind_of_device_without_runs_has_no_interval_at_any_interface_and_is_named(system):
    scenario = replace(BASE, engine="generic", system=system)
    static, alone, users = facts(scenario), estimate(scenario), np.array([16.0])
    rows = [static]
    for pool in ({}, {"prefill_workers": 1}):
        resolved = resolve(replace(scenario, concurrency=16, **pool))
        result = served_rows.served(resolved)
        rows += served_rows.table(resolved, result, "concurrency", users).rows()
    for row in rows:
        assert {"ttft_s", "tpot_s", "e2e_s"} <= set(row["not_validated"].split())
        assert f"no shipped run was measured on {_WITHOUT_RUNS[system]}" in row["message"]
    for phase in (alone.prefill, alone.decode):
        classes = operator_intervals.by_class(phase).values()
        assert all(math.isnan(one.high) for one in classes if one.value > 0.0)


def test_options_of_experts_say_nothing_of_a_dense_model():
    """Options of experts do not affect a dense model, so they need no measurement."""
    split = Parallelism(tp=4, ep=4, overlap="two_batch", expert_imbalance=2.0)
    dense = model_registry.load("meta-llama/Llama-3.1-8B")
    assert not of_split("batch", "vllm", dense, split, {}).without.any()


def test_a_degree_may_be_measured_under_load_and_not_in_a_static_batch():
    model = model_registry.load("deepseek-ai/DeepSeek-V3")
    split = Parallelism(tp=8, ep=8)
    assert of_split("batch", "sglang", model, split, {}).categories() == ["expert parallelism"]
    assert of_split("served", "sglang", model, split, {}).categories() == []


@pytest.mark.parametrize("fmt", sorted({"mxfp6", "ternary", "q6_k"} & set(FORMATS)))
def test_a_number_format_without_any_measured_run_has_no_interval(fmt):
    for row in (facts(replace(BASE, weights=fmt)), served(replace(BASE, weights=fmt))[0]):
        assert "ttft_s" in row["not_validated"] and fmt in row["message"]


def test_16_bit_floats_are_one_format():
    assert facts(replace(BASE, weights="fp16", kv="fp16"))["not_validated"] == ""


def test_a_parameter_that_no_table_has_is_unmeasured():
    @dataclass(frozen=True)
    class Wider(Parallelism):
        kv_window: int = 0

    model = model_registry.load("meta-llama/Llama-3.1-8B")
    assert of_split("batch", "vllm", model, Wider(), {}).categories() == ["kv window"]


def test_a_format_that_the_engine_was_not_measured_with_is_known_as_an_unmeasured_engine_is():
    fitted = resolve(replace(BASE, engine="fastertransformer", weights="fp8"))
    of = comparison.of_batch(estimate_resolved(fitted))
    assert not of.together and not of.without.any()
    unknown = replace(fitted.engine, measured_on="")
    known = intervals.of_batch(estimate_resolved(fitted))["e2e_s"]
    generic = intervals.of_batch(estimate_resolved(replace(fitted, engine=unknown)))["e2e_s"]
    assert known.low <= generic.low and known.high >= generic.high


# ------------------------------------------------------------------------------- arrays


def test_rows_of_an_array_have_or_lack_their_interval_each():
    split, lengths = np.array([1.0, 8.0, 1.0]), np.array([1024.0, 1024.0, 120_000.0])
    many = estimate(replace(BASE, batch=1), cp=split, isl=lengths)
    rows = summary.facts(resolve(BASE), many).rows()
    assert [row["not_validated"] for row in rows] == ["", "ttft_s tpot_s e2e_s", ""]
    assert np.isnan([row["tpot_low_s"] for row in rows]).tolist() == [False, True, False]
    for at, row in enumerate(rows):
        alone = facts(replace(BASE, batch=1, cp=int(split[at]), isl=int(lengths[at])))
        for name in LATENCIES:
            for end in intervals.ends(name):
                assert row[end] == pytest.approx(alone[end], nan_ok=True)
        assert ("no measured run had" in row["message"]) == (at == 1)
        assert ("above 63,488 prompt tokens" in row["message"]) == (at == 2)


def test_messages_of_many_configurations_are_those_of_each_alone():
    many = estimate(replace(BASE, batch=1), cp=np.array([1.0, 8.0]), isl=np.array([1e3, 1.2e5]))
    of = comparison.of_batch(many)
    assert of.messages(2).tolist() == [of.words(0), of.words(1)]
    assert of.words(0) == ""
    assert of.words(1) == (
        "not validated: no measured run had context parallelism in a static batch; "
        "beyond the measured range: above 63,488 prompt tokens"
    )


def test_rows_of_a_sweep_and_of_a_points_file_name_the_category():
    one, two = ridgeline.sweep(
        BASE.model, system=BASE.system, engine="vllm", batch=8, isl=1024, osl=128, pp=[1, 2]
    ).rows
    assert one["not_validated"] == "" and "ttft_s tpot_s" in two["not_validated"]
    assert "pipeline parallelism" in two["message"] and not math.isnan(one["ttft_low_s"])
    point = {"model": BASE.model, "system": BASE.system, "engine": "vllm", "isl": "1024"}
    point |= {"osl": "128", "concurrency": "8"}
    one, two = points_file.price([point, point | {"pp": "2"}])
    assert one["not_validated"] == "" and "tpot_s" in two["not_validated"].split()
    assert two["tpot_low_s"] == "" and "pipeline parallelism under load" in two["message"]


# ------------------------------------------------------------------------------- loads


def served(scenario: Question, *users: float) -> list[dict]:
    load = np.array(users or (16.0,))
    resolved = resolve(replace(scenario, batch=1, concurrency=1))
    result = served_rows.served(resolved, {"concurrency": load})
    return served_rows.table(resolved, result, "concurrency", load).rows()


def test_a_pipeline_under_load_has_no_interval_and_is_named():
    (row,) = served(replace(BASE, pp=2))
    assert math.isnan(row["tpot_low_s"]) and "pipeline parallelism under load" in row["message"]


def test_users_beyond_the_measured_ones_are_named_and_widen():
    near, far = served(replace(BASE, tp=8), 512.0, 2048.0)
    width = [row["tpot_high_s"] / row["tpot_low_s"] for row in (near, far)]
    assert width[1] > width[0]
    assert "above 1,024 users" in far["message"] and "above" not in near["message"]


def test_arrivals_count_as_the_requests_that_they_keep_open():
    resolved = resolve(replace(BASE, batch=1, rate=12.0))
    result = served_rows.served(resolved)
    of = comparison.of_served(result, "vllm", resolved.model)
    assert of.categories() == [] and not of.distance().any()


# ------------------------------------------------------------------------------- distance


@given(st.floats(1.0, 1e6), st.floats(1.0, 10.0), st.sampled_from(["isl", "osl", "batch", "tp"]))
@settings(max_examples=cases(60), deadline=None)
def test_a_number_further_beyond_the_range_has_never_a_narrower_interval(size, more, name):
    model = model_registry.load("meta-llama/Llama-3.1-8B")
    known = Interval(0.9, 1.1, 100)

    def end(value: float) -> float:
        degrees = Parallelism(tp=value) if name == "tp" else Parallelism()
        numbers = {} if name == "tp" else {name: value}
        of = of_split("batch", "vllm", model, degrees, numbers)
        widened = known.widened(of.distance(), of.without, "batch")
        return WIDEST if widened is None else float(np.ravel(widened.high)[0])

    most = measured("batch", "vllm").ranges[name][1]
    assert end(most * size * more) >= end(most * size) >= end(most) == known.high


def test_beyond_all_measured_prompts_novelty_and_distance_both_grow():
    asked = Question(model="openai/gpt-oss-120b", system="b200-sxm-180gb", engine="vllm", tp=8)
    found = resolve(asked)
    assert found.engine.measured_on == "recipe"
    lengths = np.array([8192.0, 16384.0, 32768.0, 65536.0, 131072.0])
    users = np.full(lengths.size, 16.0)
    asked_at = replace(found, scenario=replace(asked, concurrency=1, osl=1024))
    result = served_rows.served(asked_at, {"concurrency": users, "isl": lengths})
    assert np.all(np.diff(result.novelty.tpot) >= 0.0)
    assert result.novelty.tpot[0] < 0.6 and result.novelty.tpot[-1] > 0.95
    of = comparison.of_served(result, "vllm", found.model)
    assert np.all(np.diff(of.distance()) >= 0.0) and float(of.distance()[-1]) > 1.0


def test_the_growth_is_that_of_runs_beyond_the_ends_of_their_range():
    rows = table("engines", "range_ends")
    assert growth("served") == max(float(row["growth"]) for row in rows)
    beside = [row for row in rows if row["known"] == "recipe"]
    assert min(float(row["coverage %"]) for row in beside) > 65.0


def test_users_and_lengths_add_and_degrees_count_once():
    model = model_registry.load("meta-llama/Llama-3.1-8B")
    most = measured("served", "vllm").ranges
    numbers = {"users": 2.0 * most["users"][1], "isl": 4.0 * most["isl"][1]}
    of = of_split("served", "vllm", model, Parallelism(tp=2.0 * most["tp"][1]), numbers)
    assert float(of.distance()) == pytest.approx(math.log(2.0 * 4.0 * 2.0))


def test_a_first_token_does_not_depend_on_the_length_of_the_output():
    of = comparison.of_batch(estimate(replace(BASE, batch=1, osl=100_000)))
    assert float(of.distance()) > 1.0 and float(of.distance(first_token=True)) == 0.0


def test_a_number_that_is_not_known_lies_inside():
    model = model_registry.load("meta-llama/Llama-3.1-8B")
    split = Parallelism(tp=np.array([1.0, np.nan]), pp=np.array([np.nan, 1.0]))
    of = of_split("served", "vllm", model, split, {"users": np.array([np.nan, 16.0])})
    assert not of.without.any() and not of.distance().any()


def test_an_interval_that_would_say_nothing_is_none():
    known = Interval(0.8, 1.5, 40)
    assert known.widened(np.array(20.0), np.array(False), "served") is None
    some = known.widened(np.array([0.0, 20.0]), np.array([False, False]), "served")
    assert np.isnan(some.high).tolist() == [False, True]
    gone = known.widened(np.zeros(2), np.array([True, False]), "batch")
    assert np.isnan(gone.low).tolist() == [True, False]


def test_the_wider_of_two_intervals_holds_both():
    both = wider(Interval(0.9, 1.1, 10), Interval(0.8, 1.05, 30))
    assert (both.low, both.high, both.points) == (0.8, 1.1, 10)
    assert wider(both, None) is None


def test_what_widens_states_its_source():
    text = (hardware_db.intervals._BEYOND_RANGE).read_text(encoding="utf-8")
    assert "kind: derived" in text and "kind: assumed" in text
    assert growth("batch") > 0.0 and growth("served") > 0.0


def test_nothing_asked_is_nothing_said():
    assert Evidence().words() == "" and not Evidence().without.any()
    assert list(csv.reader(io.StringIO(Evidence().words()))) == []
