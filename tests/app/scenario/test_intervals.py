"""Every latency has an 80 % interval from held-out points, or is marked "not validated"."""

import math
from dataclasses import replace

import numpy as np
import pytest

import hardware_db
from app.answers.column import ends
from app.answers.table import TableFormat, folded, render
from app.dashboard import caches, display_tables, explanations, load_curves
from app.question import comparison
from app.question.question import Question
from app.scenario import intervals, operator_intervals, points_file, served_rows, summary
from app.scenario.intervals import Ranged
from app.scenario.levers import PHASES
from app.scenario.scenario import estimate, estimate_resolved, resolve
from app.scenario.served_rows import served
from app.scenario.setup import Setup
from app.wording import quantities
from genz_core.latency import Pricer
from genz_core.latency.profile import Fit, LatencyProfile
from hardware_db.intervals import Interval, load_interval, load_operator_interval, validated_tier
from tests.rules import for_every

ON_THREE_TIERS = {
    "measured": Question(),
    "sibling": Question(system="h100-pcie-80gb"),
    "default": Question(system="mi250x"),
}
UNLIKE = {
    "experts": Question(model="mistralai/Mixtral-8x7B-v0.1", tp=2, engine="vllm"),
    "latent": Question(model="deepseek-ai/DeepSeek-V3", system="h200-sxm-141gb", tp=8),
    "scans": Question(model="state-spaces/mamba-2.8b-hf"),
    "4 bit": Question(model="openai/gpt-oss-120b", system="b200-sxm-180gb", engine="trtllm"),
    "cpu": Question(system="xeon-6767p", weights="q4_k_m", engine="llama.cpp"),
}


def serve_rows(scenario: Question, *users: float) -> list[dict]:
    """The rows of `ridgeline serve` at some concurrencies."""
    resolved, load = resolve(replace(scenario, concurrency=1)), np.array(users)
    result = served_rows.served(resolved, {"concurrency": load})
    return served_rows.table(resolved, result, "concurrency", load).rows()


class Spied(LatencyProfile):
    """A profile that records which constants were read."""

    __slots__ = ("asked",)

    @classmethod
    def of(cls, profile: LatencyProfile) -> "Spied":
        spy = cls(profile.name, profile.tier, profile.parameters, profile.fits, profile.note)
        object.__setattr__(spy, "asked", [])
        return spy

    def constants(self, operator: str, fmt: str):
        self.asked.append((operator, fmt))
        return super().constants(operator, fmt)


@pytest.mark.parametrize("scenario", [*ON_THREE_TIERS.values(), *UNLIKE.values()], ids=str)
@pytest.mark.parametrize("phase", PHASES)
def test_an_operator_is_judged_by_the_constants_that_price_it(scenario: Question, phase: str):
    asked = resolve(scenario)
    spy = Spied.of(asked.system.latency)
    step = getattr(estimate(scenario), phase)
    pricer = Pricer(replace(asked.system, latency=spy), asked.engine)
    for row in range(len(step.graph.ops)):
        op = step.op(row)
        spy.asked.clear()
        pricer.expected_s(op)
        priced_with = list(spy.asked)
        constants = pricer.constants(op)
        assert (constants.operator, constants.fmt) in priced_with, op.name


# ------------------------------------------------------------------------------- operators


@pytest.mark.parametrize("tier", ON_THREE_TIERS)
@pytest.mark.parametrize("phase", PHASES)
def test_the_interval_of_each_operator_holds_its_prediction(tier: str, phase: str):
    scenario = ON_THREE_TIERS[tier]
    assert resolve(scenario).system.latency.tier == tier
    rows = operator_intervals.of_rows(
        operator_intervals.operator_table(getattr(estimate(scenario), phase))
    )
    busy = [row for row in rows if row.value]
    assert busy
    for row in busy:
        assert row.low <= row.value <= row.high


def test_an_operator_is_known_best_where_its_device_was_measured():
    widths = [
        load_operator_interval("gemm", known, "generic")
        for known in (
            resolve(s).system.latency.fit("gemm", "bf16") for s in ON_THREE_TIERS.values()
        )
    ]
    spread = [interval.high / interval.low for interval in widths]
    assert spread[0] < spread[2] and spread[1] < spread[2]


def test_a_class_adds_the_intervals_of_its_operators():
    step = estimate(Question()).decode
    table = operator_intervals.operator_table(step)
    latencies = zip(
        table["class"], operator_intervals.of_rows(table), table["bound_s"], strict=True
    )
    rows = [(one, bound) for kind, one, bound in latencies if kind == "gemm"]
    whole = operator_intervals.by_class(step)["gemm"]
    factor = step.learned_factor()
    ends = [bound + factor * (row.high - bound) for row, bound in rows]
    assert whole.high == pytest.approx(sum(ends))
    # the host was not measured separately
    assert math.isnan(operator_intervals.by_class(step)["host"].low)


def test_one_operator_without_an_interval_leaves_its_sum_without_one():
    known, unknown, idle = Ranged(2.0, 1.0, 3.0), Ranged(1.0), Ranged(0.0)
    assert Ranged.total([known, idle]) == known
    assert Ranged.total([known, unknown]).trust == quantities.NOT_VALIDATED
    assert Ranged.total([known, unknown]).value == 3.0


def not_validated(step) -> set[str]:
    table = operator_intervals.operator_table(step)
    return {
        name
        for name, one in zip(table["name"], operator_intervals.of_rows(table), strict=True)
        if one.value and math.isnan(one.low)
    }


def busy_operators(step) -> set[str]:
    return {op.name for op, seconds in zip(step.graph.ops, step.expected_s, strict=True) if seconds}


def test_kernels_that_no_table_times_are_not_validated():
    step = estimate(Question(engine="llama.cpp", weights="q4_k_m")).decode
    assert not_validated(step) == busy_operators(step)


def test_an_engine_s_rate_of_four_bit_products_is_not_validated():
    scenario = Question(weights="nvfp4", system="b200-sxm-180gb", engine="trtllm")
    missing = not_validated(estimate(scenario).decode)
    assert "gate_up_proj" in missing and "attention" not in missing
    assert not not_validated(estimate(replace(scenario, engine="generic")).decode)


def test_constants_fitted_on_points_of_one_s_own_are_not_validated():
    own = Fit("measured", "this machine, microbenchmarks", 60)
    assert load_operator_interval("gemm", own, "generic") is None
    system = resolve(Question()).system
    mine = replace(system.latency, fits={**system.latency.fits, "gemm.bf16": own})
    assert validated_tier(system.latency) == "measured"
    assert validated_tier(mine) == ""
    known = intervals.of_load(replace(system, latency=mine), resolve(Question()).engine)
    assert set(known.values()) == {None}


# ------------------------------------------------------------------------------- whole figures


def test_an_interval_holds_its_prediction_though_most_points_lay_on_one_side():
    assert Interval(1.17, 1.39, 10).low == 1.0
    assert Interval(0.7, 0.9, 10).high == 1.0


def test_what_nobody_can_have_measured_is_not_validated():
    fast = caches.priced(Setup(Question(bandwidth=2.0)))
    assert set(intervals.of_batch(fast).values()) == {None}
    assert not_validated(fast.decode) == busy_operators(fast.decode)
    large = Question(model="meta-llama/Llama-3.1-70B", system="l4", offload="weights")
    assert set(intervals.of_batch(estimate(large)).values()) == {None}


def test_a_static_batch_says_that_its_intervals_rest_on_other_runs_than_those_under_load():
    """The same step has a wider interval there, since published batches are predicted less well."""
    users = Question(engine="vllm", concurrency=1)
    static = intervals.latency(caches.priced(Setup(replace(users, concurrency=None))), "tpot_s")
    [served_row] = serve_rows(users, 1.0)
    assert static.value == pytest.approx(served_row["tpot_s"], rel=0.03)
    assert static.high / static.value > served_row["tpot_high_s"] / served_row["tpot_s"]
    priced = caches.priced(Setup(replace(users, concurrency=None)))
    assert "Intervals under load come from runs of servers" in explanations.trust(priced)
    none = caches.priced(Setup(Question(system="tpu-v6e")))
    assert "come from" not in explanations.trust(none)


def test_an_engine_that_nobody_measured_misses_as_the_generic_one_does():
    mlx, generic, trtllm = map(hardware_db.load_engine, ("mlx", "generic", "trtllm"))
    for metric in ("prefill", "e2e", "tpot_s"):
        unknown = load_interval(metric, "measured", mlx)
        assert unknown == load_interval(metric, "measured", generic)
        assert unknown != load_interval(metric, "measured", trtllm)


def test_a_model_that_no_recipe_corrects_is_known_less_well():
    measured = resolve(Question(model="openai/gpt-oss-120b", engine="vllm"))
    other = resolve(Question(engine="vllm"))
    assert measured.engine.recipe.points and not other.engine.recipe.points
    for name in ("ttft_s", "tpot_s"):
        known, unknown = (
            intervals.of_load(asked.system, asked.engine)[name] for asked in (measured, other)
        )
        assert unknown.high / unknown.low > known.high / known.low


def test_a_step_is_known_no_better_than_measured_steps_say():
    asked = resolve(Question(batch=8, engine="trtllm"))
    found = intervals.step_latency(estimate_resolved(asked), "decode")
    measured = load_interval("e2e", "measured", asked.engine)
    assert found.low / found.value == pytest.approx(measured.low)
    assert found.high / found.value == pytest.approx(measured.high)


def test_no_interval_reaches_below_the_speed_of_light():
    priced = estimate(Question(engine="vllm"))
    bound = float(priced.bound_ttft_s[0])
    found = Ranged.of(float(priced.ttft_s[0]), Interval(0.1, 1.5, 20), bound)
    assert found.low == pytest.approx(bound)
    for step in (priced.prefill, priced.decode):
        table = operator_intervals.operator_table(step)
        rows = zip(operator_intervals.of_rows(table), table["bound_s"], strict=True)
        assert all(row.low >= bound for row, bound in rows if row.value)
    # the interval contains the prediction
    assert Ranged.of(2.0, Interval(0.5, 1.5, 20), 3.0).low == 2.0


def test_no_interval_under_load_reaches_below_the_speed_of_light():
    asked, whole = Question(), {"concurrency": "1"}
    (row,) = points_file.price([{"model": asked.model, "system": asked.system} | whole])
    bound = float(row["bound_decode_step_s"])
    found = resolve(asked)
    load = served(replace(found, scenario=replace(asked, concurrency=1)))
    of = comparison.of_served(load, found.engine.name, found.model)
    measured = intervals.of_load(found.system, found.engine, of, load.novelty)
    assert measured["tpot_s"] is not None
    lowest = max(bound, float(row["tpot_s"]) * measured["tpot_s"].low[0])
    assert float(row["tpot_low_s"]) == pytest.approx(lowest)
    curve = load_curves.curve(Setup(asked), "concurrency")
    assert curve["tpot_low_s"][0] == pytest.approx(lowest)
    assert serve_rows(asked, 1.0)[0]["tpot_low_s"] == pytest.approx(lowest)


@for_every(["usd_per_million_tokens", "joules_per_token"])
def test_a_token_costs_more_where_fewer_come_out_of_the_same_rent_and_power(figure: str):
    facts = summary.facts(resolve(Question(engine="vllm")), estimate(Question(engine="vllm"))).row()
    rate, low, high = (facts[f"output_tokens_per_s{end}"] for end in ("", "_low", "_high"))
    spent = facts[figure] * rate
    assert facts[f"{figure}_low"] == pytest.approx(spent / high)
    assert facts[f"{figure}_high"] == pytest.approx(spent / low)
    assert facts[f"{figure}_low"] < facts[figure] < facts[f"{figure}_high"]


def test_a_system_without_a_price_has_no_interval_of_one():
    served = {"output_tokens_per_s": 1.0, "output_tokens_per_s_low": 0.5}
    system = replace(hardware_db.load("h100"), price_usd_per_hour=None)
    costs = intervals.token_costs(system, 1, served | {"output_tokens_per_s_high": 2.0})
    name = "usd_per_million_tokens"
    assert [costs[at] for at in (name, f"{name}_low", f"{name}_high")] == [None] * 3
    joules = costs["joules_per_token"]
    assert (costs["joules_per_token_low"], costs["joules_per_token_high"]) == (
        joules / 2.0, joules / 0.5,
    )  # fmt: skip


def test_a_load_beside_measured_runs_is_known_better_than_one_far_from_them():
    """Llama 70B in fp8 on one H100 node: measured with prompts of 1k and 8k, never 60k."""
    asked = Question(model="meta-llama/Llama-3.1-70B", engine="vllm", weights="fp8", tp=4)
    near, far = (serve_rows(replace(asked, isl=isl, osl=1000), 16.0)[0] for isl in (1000, 60000))
    widths = [row["tpot_high_s"] / row["tpot_low_s"] for row in (near, far)]
    assert widths[0] < widths[1]


def test_rows_of_one_table_may_differ_in_what_is_validated():
    some = Interval(np.array([0.5, np.nan]), np.array([2.0, np.nan]), 30)
    table = intervals.beside(
        {"ttft_s": np.ones(2), "tpot_s": np.ones(2)}, {"ttft_s": some, "tpot_s": None}
    )
    assert table["not_validated"].tolist() == ["tpot_s", "ttft_s tpot_s"]
    assert table["ttft_high_s"][0] == 2.0 and np.isnan(table["ttft_high_s"][1])


def test_every_latency_of_an_estimate_has_its_ends_or_is_named_as_not_validated():
    for scenario in ON_THREE_TIERS.values():
        facts = summary.facts(resolve(scenario), estimate(scenario)).row()
        check(facts, ("ttft_s", "tpot_s", "e2e_s"))


@for_every(["h100", "mi300x"])
def test_every_latency_under_load_has_its_ends_or_is_named_as_not_validated(system: str):
    names = ("ttft_s", "ttft_median_s", "tpot_s", "tpot_median_s", "e2e_s")
    rows = serve_rows(Question(system=system, engine="vllm"), 1.0, 16.0)
    for row in rows:
        check(row, names)
    missing = any(row["not_validated"] for row in rows)
    assert ("not validated" in render(rows, TableFormat.text)) is missing
    frame = load_curves.curve(Setup(Question(system=system, engine="vllm")), "concurrency")
    for row in frame.to_dict("records"):
        check(row, names)


@pytest.mark.parametrize("load", ["batch", "concurrency"])
def test_every_latency_of_a_points_file_has_its_ends_or_is_named_as_not_validated(load: str):
    names = ("prefill_s", "decode_step_s", "ttft_s", "tpot_s", "e2e_s")
    asked = {"model": Question().model, "isl": "512", "osl": "64", "engine": "vllm", load: "8"}
    for row in points_file.price([asked | {"system": "h100"}, asked | {"system": "mi300x"}]):
        check({k: float(v or "nan") if k.endswith("_s") else v for k, v in row.items()}, names)


def check(row: dict, names: tuple[str, ...]) -> None:
    missing = row["not_validated"].split()
    assert set(missing) <= set(names)
    for name in names:
        low, high = (row[end] for end in ends(name))
        if name in missing:
            assert math.isnan(low) and math.isnan(high)
        else:
            assert low <= row[name] <= high


def test_a_reader_sees_the_interval_or_that_there_is_none_and_a_program_both_ends():
    row = {"tp": 1, **intervals.beside({"ttft_s": 0.02}, {"ttft_s": Interval(0.5, 2.0, 30)})}
    assert folded(row) == {"tp": 1, "ttft_s": 0.02, "ttft 80 %": "10.0 to 40.0 ms"}
    none = intervals.beside({"ttft_s": 0.02}, {"ttft_s": None})
    assert folded(none)["ttft 80 %"] == "not validated"
    assert render([none], TableFormat.csv).splitlines()[1] == "0.02,,,ttft_s"


def test_the_exported_comparison_has_the_ends_of_every_validated_latency():
    asked = Setup(Question(engine="vllm"))
    row = summary.facts(caches.deployed(asked), caches.priced(asked)).row()
    found = display_tables.comparison_numbers({"A": display_tables.row_figures(row)})
    row = found.set_index("figure").loc["TTFT"]
    assert row["A, 80 % low"] < row["A"] < row["A, 80 % high"]
