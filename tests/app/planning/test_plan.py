"""`ridgeline plan` and `ridgeline.plan`: the same answer, explained, and started as planned."""

from __future__ import annotations

import json
import shlex

import pytest
import ridgeline
from typer.testing import CliRunner

from app.cli import cli
from app.planning.targets import FIGURES
from genz_core.errors import InvalidValue
from tests.app.planning.asking import plan

MODEL = "Qwen/Qwen3-32B"
KEYS = ("devices", "replicas", "tp", "pp", "dp", "ep", "engine", "ttft_s", "tpot_s",
        "usd_per_mtok", "launch")  # fmt: skip


@pytest.fixture(scope="module")
def planned():
    return plan(
        MODEL, systems="h200,b200,h20", devices="1:64", engine="vllm", rate=20,
        target="ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 5",
    )  # fmt: skip


@pytest.mark.slow
def test_a_plan_names_what_runs_its_figures_and_how_it_is_started(planned):
    best = planned.best
    assert all(key in best for key in KEYS)
    assert best["tpot_s"] < 0.03 and best["ttft_p95_s"] < 0.5 and best["usd_per_mtok"] < 5
    known = next(row for row in planned.rows if not row["not_validated"])
    for figure in ("ttft", "tpot"):
        assert known[f"{figure}_low_s"] <= known[f"{figure}_s"] <= known[f"{figure}_high_s"]
    assert set(best["margins"]) == {"ttft_p95", "tpot", "usd_per_mtok"}
    assert 0.0 < best["probability"] <= 1.0
    assert best["percentiles"].startswith("simulated")
    own = best["tp"] * best["pp"] * best["dp"] * best["replicas"]
    pool = best["prefill"]
    first = pool["workers"] * pool["tp"] * pool["pp"] * pool["dp"] if pool else 0
    assert best["devices"] == own + first


def test_the_command_gives_the_same_answer_as_python(planned):
    command = (
        f"plan {MODEL} --systems h200,b200,h20 --devices 1:64 --engine vllm --rate 20 --target "
        "'ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 5' --json"
    )
    ran = CliRunner().invoke(cli, shlex.split(command))
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == json.loads(json.dumps(planned.to_dict()))


def test_the_others_and_the_fewest_devices_are_explained(planned):
    named = planned.to_dict()
    assert named["others"] and all(other["why"] for other in named["others"])
    assert named["fewest_devices"]["devices"] <= min(p["devices"] for p in named["plans"])
    assert "measure serving" in named["measurement"]["command"]
    assert any("h20-96gb" in note for note in named["notes"])


def test_where_nothing_does_it_is_said_what_would():
    none = plan(MODEL, systems="h100", devices="1:4", engine="vllm", rate=50, target="tpot < 12ms")
    assert none.rows == [] and none.best is None
    whats = {change["what"] for change in none.changes}
    assert "devices" in whats or "load" in whats or "target" in whats
    assert "no deployment" in repr(none)
    assert none.measurement is None


@pytest.mark.parametrize("simulate", [False, True])
def test_an_eased_target_that_is_named_is_met_as_it_is_written(simulate):
    def ask(limit):
        return plan(MODEL, systems="h100", devices=4, engine="vllm", rate=4, tp=4, pp=1,
                    pools="aggregated", target=f"tpot < {limit}", simulate=simulate)  # fmt: skip

    (change,) = [c for c in ask("1ms").changes if c["what"] == "target"]
    written = change["words"].split(" < ")[1].split(" instead")[0]
    assert ask(written).best is not None
    assert ask(f"{change['value'] * 0.98}s").best is None


def test_a_value_and_a_limit_that_it_misses_are_written_apart():
    tpot = FIGURES["tpot"]
    assert tpot.apart(3.0204e-3, 3.02e-3) == ("3.0204 ms", "3.0200 ms")
    assert tpot.apart(3.04e-3, 3.02e-3) == ("3.04 ms", "3.02 ms")


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 1, "concurrency": 2},
        {},
        {"rate": 1, "devices": "many"},
        {"rate": 1, "target": "ttft < soon"},
        {"rate": 1, "systems": "h200,abacus"},
        {"rate": 1, "rank": "beauty"},
        {"rate": 1, "price": "h200"},
        {"rate": 1, "confidence": 2.0},
        {"rate": 1, "top": 0},
    ],
)
def test_invalid_plan_arguments_are_refused(wrong):
    with pytest.raises((InvalidValue, LookupError)):
        plan(MODEL, **{"systems": "h200", **wrong})


@pytest.mark.slow
def test_a_confidence_leaves_the_plans_that_reach_it():
    sure = plan(MODEL, systems="h200", devices="1:16", rate=10, target="tpot < 30ms",
                          confidence=0.95)  # fmt: skip
    assert sure.rows and all(plan["probability"] >= 0.95 for plan in sure.rows)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_launch_lines_state_the_degrees_of_the_plan(engine):
    best = plan(MODEL, systems="h100", devices=8, tp=4, pp=2, rate=4, engine=engine).best
    line = best["launch"]
    assert MODEL in line and "4" in line and "2" in line
    words = {"vllm": "--tensor-parallel-size 4 --pipeline-parallel-size 2",
             "sglang": "--tp-size 4 --pp-size 2", "trtllm": "--tp_size 4 --pp_size 2"}  # fmt: skip
    assert words[engine] in line
    assert best["launch_version"] and best["launch_sources"]
    assert "--request-rate 4" in best["benchmark"]


def test_a_trace_is_planned_at_its_means_and_simulated_as_it_was(tmp_path):
    path = tmp_path / "trace.csv"
    rows = [f"{at * 0.25},{400 + 100 * (at % 5)},{20 + at % 9}" for at in range(120)]
    path.write_text("arrival_s,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    planned = plan(MODEL, systems="h200", devices="1:4", engine="vllm", trace=path,
                             target="ttft_p95 < 2s")  # fmt: skip
    demand = planned.to_dict()["demand"]
    assert demand["rate"] == pytest.approx(4.0)
    assert (demand["isl"], demand["osl"]) == (600, 24)
    assert planned.best["ttft_p95_s"] < 2.0 and "--max-model-len 1024" in planned.best["launch"]


def test_the_best_has_one_price_beside_the_others_unless_they_are_priced_in_closed_form():
    asked = {"systems": ["h100", "h200"], "devices": "1:2", "concurrency": 16, "top": 2}
    named = ridgeline.plan("meta-llama/Llama-3.1-8B", **asked).to_dict()
    best = f"against ${named['plans'][0]['usd_per_mtok']:.4g}"
    said = [row["why"] for row in named["others"] if "against $" in row["why"]]
    assert said
    for words in said:
        assert (best in words) is not words.endswith("in closed form"), words
