"""Candidates as points: the frontier equals that of all pairwise comparisons."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.charts import plan as charts
from app.charts import style
from app.charts.labels import LEGEND_LINE
from app.decide import report, svg
from app.decide.axes import ACROSS, UPWARDS, frontier
from app.decide.candidate_points import points
from app.planning.document import document
from app.planning.plan_text import short
from tests.app.planning import asking


@pytest.fixture(scope="module")
def answer():
    given = {"rate": 20.0, "target": "tpot < 30ms", "devices": (1, 16), "simulate": False}
    return asking.plan("Qwen/Qwen3-32B", pools="aggregated", **given).answer


# small numbers: many ties
values = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=40)


@given(values, st.sampled_from(list(ACROSS.values())), st.sampled_from(list(UPWARDS.values())))
def test_the_frontier_is_that_of_every_pair(pairs, x, y):
    across, upwards = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    found = {(across[at], upwards[at]) for at in frontier(across, upwards, x, y)}
    good_x = -across if x.smaller else across
    good_y = -upwards if y.smaller else upwards
    best = {
        (across[a], upwards[a])
        for a in range(len(pairs))
        if not any(
            good_x[b] >= good_x[a]
            and good_y[b] >= good_y[a]
            and (good_x[b] > good_x[a] or good_y[b] > good_y[a])
            for b in range(len(pairs))
        )
    }
    assert found == best


def test_hollow_points_that_nothing_validates_are_not_said_to_miss_a_target(answer):
    axes = ACROSS["interactivity"], UPWARDS["per_device"]
    assert points(answer, *axes).missed == "misses a target"
    given = {"concurrency": 16, "engine": "sglang", "devices": (1, 4), "pools": "aggregated"}
    target = "p99 tpot < 30ms"
    planned = asking.plan("meta-llama/Llama-3.1-8B", target=target, **given).answer
    assert planned.short.plans, "the best are simulated, the others are not"
    assert points(planned, *axes).missed == "misses a target or is not validated"


def test_every_candidate_that_runs_is_a_point_once(answer):
    shown = points(answer, ACROSS["interactivity"], UPWARDS["per_device"])
    drawn = np.concatenate([series.at for series in shown.series])
    sound = np.flatnonzero(answer.found.ranking.sound(answer.found.candidates))
    assert sorted(drawn) == sorted(sound)
    meets = np.concatenate([series.at for series in shown.series if series.meets])
    assert sorted(meets) == sorted(np.flatnonzero(answer.found.feasible))


def test_a_plan_that_meets_the_targets_only_when_simulated_is_drawn_as_one_that_meets_them():
    question = {"rate": 10.0, "target": "p99 tpot < 40ms", "devices": "1:8", "system": "h100"}
    found = asking.plan("meta-llama/Llama-3.1-70B", pools="aggregated", **question).answer
    shown = points(found, ACROSS["interactivity"], UPWARDS["per_device"])
    meets = np.concatenate([series.at for series in shown.series if series.meets])
    assert {plan.at for plan in found.short.plans} <= set(meets)
    assert len(meets) == document(found)["meet_targets"]


def test_tokens_per_dollar_and_per_megawatt_follow_from_cost_and_energy(answer):
    columns = answer.found.candidates.columns
    np.testing.assert_allclose(
        UPWARDS["per_dollar"].values(columns) * columns["usd_per_hour"] / 3600.0,
        columns["output_tokens_per_s"],
    )
    np.testing.assert_allclose(
        UPWARDS["per_megawatt"].values(columns) * columns["joules_per_token"], 1e6
    )


@pytest.mark.parametrize("look", [style.LIGHT, style.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("x", ACROSS)
def test_plotly_reads_the_chart_as_it_is(answer, x: str, look):
    figure = charts.candidates(points(answer, ACROSS[x], UPWARDS["usd_per_mtok"]), look)
    read = json.loads(plotly.io.to_json(figure.document(), validate=False))
    assert json.loads(go.Figure(read).to_json()) == read
    assert any(trace["name"] == "Pareto frontier" for trace in read["data"])


def test_what_meets_its_targets_is_a_full_circle_and_what_misses_one_a_hollow_one(answer):
    shown = points(answer, ACROSS["interactivity"], UPWARDS["per_device"])
    assert {series.meets for series in shown.series} == {True, False}
    traces = charts.candidates(shown, style.LIGHT).data
    clouds = [(trace["marker"].get("symbol"), len(trace["x"])) for trace in traces
              if "legendgroup" in trace]  # fmt: skip
    for symbol, meets in ((None, True), ("circle-open", False)):
        drawn = sum(count for drawn, count in clouds if drawn == symbol)
        assert drawn == sum(series.at.size for series in shown.series if series.meets is meets)
    entries = {trace["name"]: trace["marker"].get("symbol") for trace in traces
               if trace["x"] == [None]}  # fmt: skip
    assert entries == {"meets every target": None, "misses a target": "circle-open"}


def test_without_targets_no_point_is_said_to_meet_or_to_miss_them():
    planned = asking.plan("meta-llama/Llama-3.1-8B", concurrency=16, engine="sglang", target="",
                          devices=(1, 4), pools="aggregated").answer  # fmt: skip
    shown = points(planned, ACROSS["interactivity"], UPWARDS["per_device"])
    names = [trace["name"] for trace in charts.candidates(shown, style.LIGHT).data]
    assert not any("target" in name for name in names)


def test_the_label_of_a_plan_on_the_frontier_keeps_off_its_ring(answer):
    shown = points(answer, ACROSS["interactivity"], UPWARDS["per_device"])
    *_, frontier, plans = charts.candidates(shown, style.LIGHT).data
    rings = {at: size for (at, _), size in zip(plans["customdata"], plans["marker"]["size"],
                                               strict=True)}  # fmt: skip
    sizes = {at: size for (at, _), size in zip(frontier["customdata"], frontier["marker"]["size"],
                                               strict=True)}  # fmt: skip
    both = rings.keys() & sizes.keys()
    assert both and all(sizes[at] == rings[at] for at in both)  # Plotly keeps words off a marker


def test_a_target_on_tpot_is_a_guide_on_interactivity(answer):
    shown = points(answer, ACROSS["interactivity"], UPWARDS["per_device"])
    assert [place for place, _ in shown.x_guides] == [pytest.approx(1 / 0.03)]


def test_the_report_holds_the_plans_its_charts_and_nothing_from_elsewhere(answer):
    named = document(answer)
    page = report.html(named, answer)
    assert page.count("<svg") == 2 and "<script" not in page
    assert page.count(">meets every target<") == page.count(">misses a target<") == 2
    elsewhere = re.sub(r"http://(www\.w3\.org/2000/svg|localhost:800\d)", "", page)
    assert "http" not in elsewhere
    look = style.LIGHT
    known = {look.ink, look.faint, look.grid, look.panel, look.alarm, look.good, *look.classes}
    assert set(re.findall("#[0-9a-f]{6}", page)) <= known
    for row in named["plans"]:
        assert short(row) in page and named["demand"]["words"] in page
    text = report.markdown(named)
    assert "```mermaid" in text and report.headline(named["plans"][0]) in text
    assert yaml.safe_load(report.to_yaml(named))["plans"][0]["tp"] == named["plans"][0]["tp"]


def test_before_and_after_are_two_folders_of_one_archive(answer):
    named = document(answer)
    before = {**named, "plans": named["plans"][-1:]}
    packed = report.before_and_after(before, named, "kubernetes")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {"before/launch.sh", "after/launch.sh", "after/kubernetes/check.yaml"} <= set(texts)
    assert named["plans"][0]["launch"].splitlines()[0] in texts["after/launch.sh"]
    assert report.headline(before["plans"][0]) in texts["before/launch.sh"]
    assert packed == report.before_and_after(before, named, "kubernetes")
    alone = report.before_and_after(before, named)
    assert zipfile.ZipFile(io.BytesIO(alone)).namelist() == ["before/launch.sh", "after/launch.sh"]


def test_a_name_from_outside_is_text_in_the_report(answer):
    named = document(answer) | {"model": "<img src=x onerror=alert(1)>|`"}
    assert "<img" not in report.html(named, answer)
    outside_of_code = report.markdown(named).split("```")[::2]
    assert not any("<img" in part for part in outside_of_code)


def test_the_chart_of_a_report_is_well_formed(answer):
    from xml.etree import ElementTree

    drawn = svg.candidates(points(answer, ACROSS["ttft"], UPWARDS["per_dollar"]))
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def test_the_launch_script_is_what_a_shell_reads(answer):
    import subprocess

    script = report.script(document(answer))
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.slow
def test_colours_tell_families_apart_or_else_engines_or_else_systems():
    axes = ACROSS["interactivity"], UPWARDS["per_device"]
    given = {"rate": 3.0, "devices": (1, 2), "weights": ("bf16", "fp8"), "simulate": False}
    for systems, names in (
        (("h100",), {"vllm, bf16", "vllm, fp8", "sglang, bf16", "sglang, fp8"}),
        (("h100", "h200"), {f"{name}, {engine}" for name in ("NVIDIA H100 SXM5 80GB",
                            "NVIDIA H200 SXM 141GB") for engine in ("vllm", "sglang")}),
        (("l40s", "h100", "h200", "b200"), {"NVIDIA L40S", "NVIDIA H100 SXM5 80GB",
                                            "NVIDIA H200 SXM 141GB", "NVIDIA B200 SXM 180GB"}),
    ):  # fmt: skip
        engines = ("vllm", "sglang")
        shown = points(asking.plan("llama-3.1-8b", systems=systems, engine=engines, **given).answer,
                       *axes)  # fmt: skip
        assert {series.name for series in shown.series} == names
        families = {name for series in shown.series for name in series.families}
        assert len(families) > len(names), "of a group's points each has its own family"


def test_a_long_legend_makes_the_chart_of_a_plan_higher_and_its_plot_no_lower(answer):
    shown = points(answer, ACROSS["interactivity"], UPWARDS["per_device"])
    one, *_ = shown.series
    many = replace(shown, series=tuple(replace(one, name=f"{at} {'n' * 40}") for at in range(9)))
    figure = charts.candidates(many, style.LIGHT)
    assert figure.layout["margin"]["b"] < (legend := LEGEND_LINE * 9)  # in one column
    assert figure.layout["height"] - legend >= charts.candidates(shown, style.LIGHT).layout[
        "height"] - figure.layout["margin"]["b"]  # fmt: skip
