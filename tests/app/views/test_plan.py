"""Page Plan: an answer from three inputs, explained, and the same as from Python."""

from __future__ import annotations

import functools
import shlex
import time

import pytest
import ridgeline

from app.answers.columns import COLUMNS
from app.dashboard.open_point import scenario_of
from app.decide.plan_query import Searched, curves_as_job
from app.jobs import server_queue
from app.question.question import Question
from app.scenario.setup import Setup
from tests.app.pages import cards, charts, finished, opened, pressed, settled, shown

ASKED = {"model": "Qwen/Qwen3-32B", "rate": "20", "target": "tpot < 30ms", "devices": "1:64"}


@functools.cache
def answered(**query: str):
    """A page whose plans have been simulated, drawn once for all tests that only read it."""
    return settled(opened("plan", **query))


def text(app) -> str:
    return " ".join([m.value for m in app.markdown] + [c.value for c in app.caption])


def test_the_page_answers_with_its_defaults():
    app = answered()
    assert not app.exception and not app.error
    assert set(cards(app)) >= {"TTFT", "TPOT", "Devices"}
    assert "Meets all targets" not in cards(app)  # none is stated
    assert "every target" not in text(app) and "faint" not in text(app)
    assert "1 devices" not in str([table.value.to_dict() for table in app.dataframe])
    assert "sustain the load; ranked by" in text(app) and "meet the targets" not in text(app)


def test_the_plan_in_closed_form_is_there_at_once_and_says_what_is_not_simulated_yet():
    app = opened("plan", **ASKED)
    assert not app.exception and not app.error
    closed = app.dataframe[0].value
    assert (closed["TPOT P99"] == "being simulated").all()
    assert closed["Meets all targets"].str.endswith("being simulated").all()
    commands = [block.value for block in app.code if block.language == "bash"]
    assert not commands, "nothing is to be started that was not simulated"
    simulated = settled(app)
    assert simulated.dataframe[0].value["TPOT P99"].str.endswith("ms").all()
    assert "being simulated" not in text(simulated) and simulated.code
    again = opened("plan", **ASKED)  # of another visitor
    assert again.dataframe[0].value.equals(simulated.dataframe[0].value)


def test_without_simulations_nothing_is_pending():
    app = opened("plan", **ASKED, simulate="false")
    assert not app.exception and not app.error and not server_queue().under_way
    assert app.dataframe[0].value["TPOT P99"].isna().all() and app.code


@pytest.mark.slow
def test_simulations_that_were_cancelled_leave_the_closed_form_and_can_be_asked_for_again():
    app = opened("plan", **{**ASKED, "rate": "21"})
    app.session_state["plan_simulated_job"].end()
    app = app.run()
    assert "Not simulated: " in app.warning[0].value
    assert (app.dataframe[0].value["TPOT P99"] == "not simulated").all() and app.code
    app = settled(pressed(app, "Try again"))
    assert not app.warning and app.dataframe[0].value["TPOT P99"].str.endswith("ms").all()


def test_three_inputs_give_the_answer_that_python_gives():
    app = answered(**ASKED)
    assert not app.exception and not app.error
    best = ridgeline.plan(
        "Qwen/Qwen3-32B", systems="h100", devices="1:64", rate=20, target="tpot < 30ms"
    ).best
    assert cards(app)["Devices"] == str(best["devices"])
    assert best["launch"] in [block.value for block in app.code]


@pytest.mark.slow
def test_what_the_sidebar_says_is_kept_and_only_the_rest_is_searched():
    plain, said = (answered(**ASKED, **more) for more in ({}, {"weights": "fp8", "tp": "4"}))
    assert not said.exception and not said.error
    best = ridgeline.plan(
        "Qwen/Qwen3-32B", devices="1:64", rate=20, target="tpot < 30ms", weights="fp8", tp=4
    ).best
    assert best["tp"] == 4 and best["weights"] == "fp8"
    assert cards(said)["Devices"] == str(best["devices"])
    assert best["launch"] in [block.value for block in said.code]
    free = answered(**ASKED, weights="fp8", tp="4", free="true")
    assert int(cards(free)["Devices"]) <= best["devices"]
    assert cards(free)["Devices"] != cards(plain)["Devices"]


def test_what_plays_no_part_in_a_plan_is_said():
    app = opened("plan", cp="2", weights="fp8")
    assert not app.exception and not app.error
    assert any("Not used here: cp." in caption.value for caption in app.caption)


def test_all_candidates_are_drawn_with_the_target_as_a_guide():
    (chart,) = charts(shown("plan", **ASKED))
    assert any(trace["name"] == "Pareto frontier" for trace in chart["data"])
    assert any("tpot" in note["text"] for note in chart["layout"]["annotations"])


@pytest.mark.slow
def test_what_cannot_be_met_says_what_would_have_to_change():
    app = opened("plan", target="tpot < 0.5ms", devices="1:2")
    app = settled(app)
    app = finished(app, "plan_changes_job") if "plan_changes_job" in app.session_state else app
    assert "No deployment" in app.warning[0].value
    assert "instead of" in text(app)


def test_a_load_that_no_deployment_sustains_has_no_chart_and_no_word_of_prices():
    app = settled(opened("plan", rate=5000.0, devices="1:1"))
    assert "No deployment" in app.warning[0].value
    assert not charts(app) and not any("price" in one.value for one in app.info)


@pytest.mark.slow
def test_many_systems_are_priced_in_a_job():
    systems = ["h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb"]
    app = opened("plan", devices="1:64").multiselect(key="systems").set_value(systems).run()
    assert not app.exception
    app = finished(app, "plan_priced_job")
    assert "Devices" in cards(app)


def test_nonsense_is_a_sentence():
    app = opened("plan", target="tpto < 3")
    assert not app.exception
    assert "tpto" in app.error[0].value
    app = opened("plan", devices="many")
    assert "many" in app.error[0].value


def test_a_point_becomes_a_scenario_of_one_replica():
    row = {"replicas": 4, "tp": 2, "pp": 1, "dp": 1, "ep": 1, "engine": "vllm", "running": 90.0}
    asked = Question(model="Qwen/Qwen3-8B", isl=256, osl=128, engine="vllm", engine_version="0.9.0",
                     concurrency=1, devices=2, weights="fp8")  # fmt: skip
    (curve,), _ = curves_as_job((("", Searched(Setup(asked))),))
    fields = scenario_of(row, curve.family, ())
    assert fields["batch"] == 22 and fields["tp"] == 2
    kept = ("model", "isl", "osl", "engine_version", "weights", "system")
    assert {name: fields[name] for name in kept} == {name: getattr(asked, name) for name in kept}


def test_a_point_of_a_visitors_own_system_opens_that_by_its_name():
    text = "include: h100-sxm5-80gb\nid: my-chip\nname: My chip\n"
    own = (("my-chip (yours)", text),)
    asked = Question(system=own[0][0], engine="vllm", concurrency=1)
    (curve,), _ = curves_as_job((("", Searched(Setup(asked, system_yaml=text), (), own)),))
    row = {"replicas": 1, "tp": 1, "pp": 1, "dp": 1, "ep": 1, "engine": "vllm", "running": 1.0}
    assert scenario_of(row, curve.family, own)["system"] == own[0][0]


@pytest.mark.slow
def test_the_best_plan_is_saved_for_a_cluster_as_python_writes_it():
    ask = {**ASKED, "engines": "vllm", "pools": "aggregated", "plan_tab": "Download"}
    app = answered(**ask, plan_deployment="kubernetes")
    assert not app.exception and not app.error
    files = {expander.label: expander.code for expander in app.expander if expander.code}
    assert {"deployment.yaml", "check.yaml"} <= set(files)
    (text,) = (block.value for block in files["deployment.yaml"])
    assert "kind: Deployment" in text and "ridgeline/tpot-s:" in text
    refused = answered(**ask, plan_deployment="llm-d")
    assert not refused.exception
    assert any("prefill pool" in one.value for one in refused.info)


def test_the_command_asks_the_same_and_nothing_is_called_by_its_field():
    app = answered(plan_tab="Download", engines="sglang", rank="devices", pools="aggregated",
                   **{**ASKED, "devices": "1:16"})  # fmt: skip
    assert not app.exception and not app.error
    command = next(block.value for block in app.code if block.value.startswith("ridgeline plan"))
    for words in ("--engine sglang", "--devices 1:16", "--pools aggregated", "--rank devices"):
        assert words in command
    valued = [word for word in shlex.split(command)[3:] if word != "--no-simulate"]
    given = {name.removeprefix("--"): text for name, text in zip(*[iter(valued)] * 2, strict=True)}
    best = ridgeline.plan(ASKED["model"], simulate=False, **given).best
    assert cards(app)["Devices"] == str(best["devices"])
    assert "ranked by number of devices" in text(app) and "usd_per_mtok" not in text(app)


def test_a_link_may_name_the_figure_that_ranks():
    app = shown("plan", rank="usd_per_hour", **ASKED)
    assert not app.exception and "ranked by rent of all devices" in text(app)


@pytest.mark.slow
def test_a_stopped_search_says_so_and_can_be_asked_again():
    systems = ["h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x"]
    app = opened("plan", devices="1:64")
    app = app.multiselect(key="systems").set_value(systems).run()
    job = app.session_state["plan_priced_job"]
    app = pressed(app, "Cancel")
    deadline = time.monotonic() + 120
    while not job.over and time.monotonic() < deadline:
        time.sleep(0.2)
        job.poll()
    app = app.run()
    assert not app.exception and "cancelled" in app.error[0].value
    assert app.multiselect(key="systems").value, "the page is as it was asked"
    app = pressed(app, "Try again")
    assert not app.exception and not app.error
    assert app.session_state["plan_priced_job"] is not job
    app.session_state["plan_priced_job"].end()


def test_heads_of_the_plans_are_those_of_the_declared_columns():
    table = shown("plan", plan_tab="All plans", **ASKED).dataframe[1].value
    heads = {column.head for column in COLUMNS.values()}
    assert {name.removesuffix(" [80 %]") for name in table} - heads == {"Deployment"}


@pytest.mark.slow
def test_every_system_has_one_row_with_its_nearest_run_or_what_it_lacks():
    asked = {**ASKED, "devices": "8:8", "rate": "10", "systems": "h100,h200", "engine": "vllm"}
    met, missed = (
        answered(**{**asked, "target": f"tpot_p99 < {ms}ms"}).dataframe[0].value for ms in (100, 1)
    )
    for table in (met, missed):
        assert set(table["System"]) == {"h100-sxm5-80gb", "h200-sxm-141gb"}
        assert table["TPOT P99"].notna().all() and table["Nearest measured run"].notna().all()
    assert missed["Meets all targets"].str.startswith("no: TPOT p99").all()
    assert not met["Meets all targets"].str.startswith("no").any()
    costs = [float(text.removeprefix("$")) for text in met["$ per Mtok out"]]
    assert costs == sorted(costs), "both are as good as sure, so that cost alone orders them"


def test_several_systems_in_the_place_of_one_are_searched():
    app = opened("plan", system="h100,h200", devices="1:2")
    assert not app.exception and not app.error
    assert app.multiselect(key="systems").value == ["h100", "h200"]
    assert set(app.dataframe[0].value["System"]) == {"h100-sxm5-80gb", "h200-sxm-141gb"}


@pytest.mark.slow
def test_a_trace_that_was_uploaded_is_planned_at_its_means():
    app = opened("plan", trace="trace", model="meta-llama/Llama-3.1-8B", target="tpot_p99 < 30ms")
    assert not app.exception and "upload a trace" in app.error[0].value
    rows = "".join(f"{at / 4},{600 + at % 7},{50 + at % 3}\n" for at in range(200))
    trace = f"arrival_s,input_tokens,output_tokens\n{rows}".encode()
    app = app.file_uploader("sim_trace").upload("day.csv", trace).run()
    assert not app.exception and not app.error
    means = {"rate": 4.0, "isl": 603, "osl": 51}
    best = ridgeline.plan(
        "meta-llama/Llama-3.1-8B", target="tpot < 30ms", simulate=False, **means
    ).best
    assert cards(app)["Devices"] == str(best["devices"])
    app = settled(app)
    assert cards(app)["Devices"] == str(best["devices"])
    assert "percentiles of the best: simulated, " in text(app) and "day.csv" in text(app)


@pytest.mark.slow
def test_the_first_requests_of_a_long_trace_are_planned_and_it_is_said():
    rows = "".join(f"{at / 4},{600 + at % 7},{50 + at % 3}\n" for at in range(200))
    trace = f"arrival_s,input_tokens,output_tokens\n{rows}".encode()
    app = opened("plan", trace="trace", model="Qwen/Qwen3-8B", target="tpot_p99 < 30ms")
    more = trace + b"".join(f"{50 + at / 400},600,50\n".encode() for at in range(6000))
    app = app.file_uploader("sim_trace").upload("day.csv", more).run()
    assert not app.exception and not app.error
    assert "the first 5,000 requests of day.csv" in text(app)
