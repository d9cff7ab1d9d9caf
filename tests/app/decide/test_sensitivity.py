"""What determines the figures: laws that hold for every model, and ridges known by algebra."""

from __future__ import annotations

import json
from dataclasses import replace

import plotly.graph_objects as go
import plotly.io
import pytest
import ridgeline
from typer.testing import CliRunner

import hardware_db
from app.charts import chip_lab as charts
from app.charts import style
from app.cli import cli
from app.decide import chips, sensitivity
from app.decide.chips import Chip
from app.decide.loads import under_load
from app.decide.needed_hardware import requirement
from app.decide.sensitivity import (
    FIGURES,
    RESOURCES,
    ridges,
    scaled,
    sensitivities,
)
from app.decide.sensitivity_rows import sentences
from app.planning.targets import parse_targets
from app.question.question import Question
from app.scenario.description import load_words
from app.scenario.scenario import estimate_resolved, resolve
from genz_core.errors import InvalidValue
from hardware_db.memory_stacks import generations

SCENARIOS = {
    "dense": Question(model="Qwen/Qwen3-32B", tp=2, batch=16, engine="vllm"),
    "experts": Question(model="openai/gpt-oss-120b", tp=4, ep=4, batch=64, engine="generic"),
    "one user": Question(engine="generic"),
}
every = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


@every
def test_elasticities_of_a_time_lie_between_minus_one_and_zero_and_so_does_their_sum(scenario):
    _, found = sensitivities(resolve(replace(scenario, change=5.0)))
    for name in ("ttft_s", "tpot_s"):
        values = [one.elasticity[name] for one in found]
        assert all(-1.001 <= value <= 0.001 for value in values)
        assert -1.001 <= sum(values) <= -0.3


@every
def test_of_a_static_batch_capacity_changes_nothing(scenario):
    _, found = sensitivities(resolve(scenario))
    (capacity,) = (one for one in found if one.resource == "capacity")
    assert all(value == pytest.approx(0.0, abs=1e-9) for value in capacity.elasticity.values())


def test_output_answers_against_the_times():
    _, found = sensitivities(resolve(under_load(SCENARIOS["dense"])))
    (bandwidth,) = (one for one in found if one.resource == "bandwidth")
    assert bandwidth.elasticity["output_tokens_per_s_per_device"] > 0.2
    assert bandwidth.elasticity["tpot_s"] < -0.2


def test_an_unknown_resource_is_refused():
    with pytest.raises(InvalidValue, match="choose bandwidth"):
        scaled(resolve(Question()), "luck", 2.0)


def test_the_ridge_of_dense_products_is_the_systems_ridge_point():
    """bf16 weights: 2 FLOPs and 2 bytes a parameter and token, so it is peak over bandwidth."""
    resolved = resolve(Question(isl=16, osl=1))
    decode, _ = ridges(resolved)
    system = resolved.system
    ridge = system.peak("bf16") / system.memory_bytes_per_s
    assert decode.crossings["gemm"] == pytest.approx(ridge, rel=0.25)


def test_what_is_needed_is_met_with_it_and_not_with_less():
    resolved = resolve(SCENARIOS["dense"])
    targets = parse_targets("tpot < 12ms")
    need = requirement(resolved, targets)
    factor = need.factors["bandwidth"]
    assert factor is not None and factor > 1.0
    at = sensitivity.figures(scaled(resolved, "bandwidth", factor))["tpot_s"]
    below = sensitivity.figures(scaled(resolved, "bandwidth", factor / 1.03))["tpot_s"]
    assert at <= 0.012 < below
    together = need.factors["together"]
    assert together is not None and together <= factor * 1.02


def test_no_device_meets_the_targets_with_less_than_the_least():
    resolved = resolve(SCENARIOS["dense"])
    priced = estimate_resolved(resolved)
    targets = parse_targets(f"tpot < {float(priced.bound_tpot_s[0]):.6f}s")
    need = requirement(resolved, targets)
    least = need.least
    assert need.has["flops_per_s"] == pytest.approx(resolved.system.peak("bf16"), rel=0.01)
    assert least["bytes_per_s"] <= resolved.system.memory_bytes_per_s * 1.001
    stored = priced.memory.weights_bytes + priced.memory.kv_bytes
    assert least["capacity_bytes"] == float(stored[0]), "what an engine reserves is its choice"


def test_targets_that_are_no_latency_are_refused():
    with pytest.raises(InvalidValue, match="mean latencies"):
        requirement(resolve(Question()), parse_targets("usd_per_mtok < 1"))


def test_stacks_of_a_generation_have_the_rate_of_the_standard():
    known = generations()
    assert known["HBM3"].bytes_per_s == pytest.approx(819e9, rel=1e-3)
    assert known["HBM4"].bytes_per_s == pytest.approx(2.048e12)
    system = hardware_db.load("h100")
    made = chips.chip_system(system, Chip("HBM4", 6, 36.0))
    assert made.memory_bytes_per_s == pytest.approx(6 * 2.048e12)
    assert made.memory_bytes == pytest.approx(6 * 36e9)
    with pytest.raises(InvalidValue, match="choose HBM2E"):
        chips.chip_system(system, Chip("HBM9", 6))


def test_an_eighth_of_the_power_is_half_the_arithmetic():
    system = hardware_db.load("h100")
    assert system.tdp_w
    assert chips.power_factor(system, system.tdp_w / 8) == pytest.approx(0.5)
    assert chips.power_factor(system, 10 * system.tdp_w) == 1.0


@pytest.mark.by_day(1)
@pytest.mark.parametrize("look", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_plotly_reads_the_charts(look):
    resolved = resolve(SCENARIOS["experts"])
    base, found = sensitivities(resolved)
    figures = [charts.tornado(base, found, name, name, look) for name in FIGURES]
    figures += [charts.ridge(ridge, 64.0, look) for ridge in ridges(resolved)]
    for figure in figures:
        read = json.loads(plotly.io.to_json(figure.document(), validate=False))
        assert json.loads(go.Figure(read).to_json()) == read


def test_the_command_prints_what_python_finds():
    words = ["sensitivity", "Qwen/Qwen3-32B", "--tp", "2", "--batch", "16", "--engine", "vllm"]
    ran = CliRunner().invoke(cli, [*words, "--target", "tpot < 12ms", "--json"])
    assert ran.exit_code == 0, ran.output
    named = json.loads(ran.stdout)
    base, _ = sensitivities(resolve(SCENARIOS["dense"]))
    assert named["figures"]["tpot_s"] == pytest.approx(base["tpot_s"])
    assert set(named["resources"]) == set(RESOURCES)
    assert named["needed"]["factors"]["bandwidth"] > 1
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0
    assert "decode, gemm: its bound holds more arithmetic than memory traffic from" in shown.output


def test_words_on_a_ridge_do_not_contradict_the_sensitivities_below_it():
    """Operators above their own ridge make arithmetic the larger lever of a step whose bound still
    holds more memory traffic, so a ridge says what its bound holds and not what limits the step."""
    sizes = ["--batch", "700", "--isl", "128", "--osl", "16", "--engine", "vllm", "--json"]
    found = json.loads(CliRunner().invoke(cli, ["sensitivity", "Qwen/Qwen3-8B", *sizes]).stdout)
    tpot = {name: abs(of["elasticity"]["tpot_s"]) for name, of in found["resources"].items()}
    assert tpot["peak"] > 2.0 * tpot["bandwidth"]
    assert found["ridges"]["decode"]["crossings"]["all"] > 700
    whole = next(line for line in sentences(found) if line.startswith("decode, the whole step"))
    assert "limited" not in whole and "its bound holds more arithmetic" in whole


def test_a_load_is_served_and_says_so():
    batch = SCENARIOS["dense"]
    loaded = under_load(batch)
    assert (loaded.concurrency, loaded.batch, under_load(loaded)) == (16, 1, loaded)
    assert [load_words(q) for q in (batch, loaded)] == ["batch 16", "16 users"]
    static, users = (sensitivity.figures(resolve(one)) for one in (batch, loaded))
    assert users["ttft_s"] < static["ttft_s"], "users of a steady loop do not come all at once"


@pytest.mark.parametrize("resource", ["bandwidth", "peak", "link", "capacity"])
@pytest.mark.parametrize(
    "asked",
    [
        {"engine": "sglang", "concurrency": 512},
        {"engine": "sglang", "concurrency": 512, "memory_fraction": 0.8},
        {"engine": "sglang", "system": "rtx-4090", "batch": 8, "isl": 8192},
        {"engine": "sglang", "concurrency": 64, "prefill_workers": 1, "prefill_system": "l40s"},
        {"engine": "vllm", "concurrency": 512},
    ],
    ids=str,
)
def test_more_of_a_resource_is_the_answer_of_the_question_with_it(resource: str, asked: dict):
    """Also where a server chooses its share of memory and its budget by the device's memory."""
    question = Question(**{"isl": 4096, "osl": 1024} | asked)
    varied = scaled(resolve(question), resource, 1.25)
    asked_for = resolve(replace(question, **{resource: 1.25}))
    assert sensitivity.figures(varied) == sensitivity.figures(asked_for)


def test_a_target_on_time_between_tokens_needs_nothing_where_there_is_one_token():
    resolved = resolve(Question(engine="vllm", osl=1))
    slow, none = (parse_targets(f"ttft < 10s{more}") for more in (", tpot < 1us", ""))
    assert requirement(resolved, slow).factors == requirement(resolved, none).factors


@pytest.mark.parametrize(
    ("load", "warning"),
    [
        ({"tp": 4, "rate": 500}, "cannot sustain the load"),
        ({"tp": 1, "concurrency": 8}, "more memory than it has"),
        ({"tp": 4, "concurrency": 8}, ""),
    ],
)
def test_figures_of_a_deployment_that_cannot_run_are_said_to_be(load: dict, warning: str):
    named = ridgeline.sensitivity("meta-llama/Llama-3.1-70B", system="h100", **load)
    said = [line for line in sentences(named) if line.startswith("warning")]
    assert len(said) == bool(warning) and warning in "".join(said)
