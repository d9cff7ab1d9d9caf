"""Frontiers of systems: laws of the curves, the measured part, and the chart."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest

from app.charts import frontiers as charts
from app.charts import style
from app.decide import frontiers
from app.decide.axes import ACROSS, UPWARDS
from app.decide.measured_loads import (
    BASES,
    MeasuredLoad,
    bases,
    by_family,
    comparable_loads,
    measured_loads,
)
from app.planning.families import families
from app.question.question import Question
from app.scenario.scenario import resolve
from app.scenario.served_rows import served
from hardware_db.tables import table
from tests.app.planning.asking import asked

MODEL = "openai/gpt-oss-120b"
LENGTHS = {"isl": 1024, "osl": 1024, "length_ratio": 0.8}
ASKED = {"system": "h200", "engine": "vllm", "concurrency": 1, "devices": (1, 8), **LENGTHS}


@pytest.fixture(scope="module")
def curve():
    (found,), left = frontiers.curves(asked(MODEL, **ASKED))
    assert not left
    return found


def test_a_point_is_what_serving_that_deployment_gives(curve):
    at = len(curve) // 2
    row = {name: column[at] for name, column in curve.columns.items()}
    scenario = Question(
        model=MODEL, system="h200", engine="vllm", concurrency=row["users"], **LENGTHS,
        **{name: int(row[name]) for name in ("tp", "pp", "dp", "ep")},
    )  # fmt: skip
    found = served(resolve(scenario))
    assert row["tpot_s"] == pytest.approx(float(found.tpot_s[0]))
    assert row["ttft_s"] == pytest.approx(float(found.ttft_s[0]))
    assert row["output_tokens_per_s_per_device"] == pytest.approx(
        float(found.output_tokens_per_s_per_device[0])
    )


@pytest.mark.parametrize("y", UPWARDS)
@pytest.mark.parametrize("x", ACROSS)
def test_along_a_frontier_one_axis_is_paid_for_by_the_other(curve, x: str, y: str):
    across, upwards = ACROSS[x], UPWARDS[y]
    at = curve.vertices(across, upwards)
    xs, ys = across.values(curve.columns)[at], upwards.values(curve.columns)[at]
    worse = -1.0 if across.smaller == upwards.smaller else 1.0
    assert at.size > 1 and (np.diff(xs) > 0).all()
    assert (np.diff(ys) * worse > 0).all()


def test_measured_loads_of_these_lengths_are_beside_their_prediction(curve):
    assert curve.measured and {(m.isl, m.osl) for m in curve.measured} == {(1024, 1024)}
    columns = charts.measured_columns(curve)
    predicted = curve.at_measured["tpot_s"]
    assert np.median(np.abs(np.log(predicted / columns["tpot_s"]))) < np.log(1.5)


def test_a_model_by_any_of_its_names_has_its_measured_loads():
    names = ("meta-llama/Llama-3.1-8B", "llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct")
    given = {"system": "h100", "engine": "trtllm", "concurrency": 8}
    each = [families(asked(name, **given))[0] for name in names]
    loads = [measured_loads(family) for (family,) in each]
    assert loads[0] and loads[0] == loads[1] == loads[2]


def test_measured_loads_are_priced_with_users_who_start_at_once(curve):
    run = curve.measured[0]
    degrees = {name: run.row[name] for name in ("tp", "pp", "dp", "ep")}
    question = replace(curve.family.question, **degrees, concurrency=run.concurrency, **run.asked)
    alone = served(resolve(replace(question, burst_start=True)))
    assert curve.at_measured["ttft_s"][0] == pytest.approx(float(alone.ttft_s[0]))


def test_runs_beside_a_deployment_have_its_degrees_and_about_its_lengths():
    question = Question(
        model="meta-llama/Llama-3.1-70B", engine="vllm", system="h100", weights="fp8", tp=2,
        concurrency=16, isl=1024, osl=1024,
    )  # fmt: skip

    def shown(**changed):
        return comparable_loads(resolve(replace(question, **changed)))

    runs = shown()
    asked_for = {(one.degrees, one.isl, one.osl) for one in runs}
    assert asked_for == {((2, 1, 1, 1), 1024, 1024)}
    assert runs == shown(isl=900, concurrency=None, rate=2.0)
    assert not shown(isl=2048) and not shown(weights="bf16") and not shown(replicas=2)
    assert {one.degrees for one in shown(tp=4)} == {(4, 1, 1, 1)}


def test_runs_with_drafts_are_not_beside_a_deployment_without():
    drafted = [row for row in table("measurements", "serving") if row["mtp_tokens"]]
    plain = sum(map(len, by_family().values()))
    assert drafted and plain == len(table("measurements", "serving")) - len(drafted)


def test_throughput_of_a_measured_load_is_littles_law():
    load = MeasuredLoad((2, 1, 1, 1), 1000, 100, 1.0, 10.0, 0.1, 0.01, "")
    assert load.output_tokens_per_s * (0.1 + 99 * 0.01) == pytest.approx(10.0 * 100)


def test_how_far_measurements_reach():
    def load(tp: int, users: float) -> MeasuredLoad:
        return MeasuredLoad((tp, 1, 1, 1), 1024, 1024, 0.8, users, 0.1, 0.01, "")

    loads = [load(1, 4.0), load(1, 64.0)]
    degrees = np.array([[1, 1, 1, 2], [1] * 4, [1] * 4, [1] * 4], dtype=float)
    users = np.array([4.0, 16.0, 128.0, 16.0])
    found = [BASES[at] for at in bases(loads, degrees, users, (1024, 1024))]
    assert found == ["measured", "interpolated", "extrapolated", "extrapolated"]
    longer = [BASES[at] for at in bases(loads, degrees, users, (8192, 1024))]
    assert set(longer) == {"extrapolated"}
    assert {BASES[at] for at in bases([], degrees, users, (1, 1))} == {"not measured"}


@pytest.mark.parametrize("look", [style.LIGHT, style.DARK], ids=["light", "dark"])
def test_plotly_reads_the_chart_and_lines_tell_what_was_measured(curve, look):
    axes = (ACROSS["interactivity"], UPWARDS["per_device"])
    figure = charts.frontiers([curve], axes, ([(33.0, "tpot < 30 ms")], []), look)
    read = json.loads(plotly.io.to_json(figure.document(), validate=False))
    assert json.loads(go.Figure(read).to_json()) == read
    dashes = {trace["line"]["dash"] for trace in read["data"] if "dash" in trace.get("line", {})}
    assert dashes & {"solid", "dash"}
    assert any(trace.get("marker", {}).get("symbol") == "diamond" for trace in read["data"])


@pytest.mark.parametrize("name", ["per_device", "usd_per_mtok"])
@pytest.mark.parametrize("speed", [30.0, 75.0, 140.0])
def test_at_a_speed_no_load_of_the_family_is_better(curve, speed: float, name: str):
    y = UPWARDS[name]
    found = frontiers.at_speed(curve, speed, y)
    assert found and found["interactivity"] >= speed
    value, low, high = frontiers.reach(found, y)
    assert low <= value <= high
    fast = curve.columns["interactivity"] >= speed
    sign = 1.0 if y.smaller else -1.0
    best = float(np.min(sign * y.values(curve.columns)[fast]))
    assert sign * value <= best * (1.0 + 1e-9 * np.sign(best)), (
        "a load of the curve itself is tried"
    )
    more = {n: int(found[n]) for n in ("tp", "pp", "dp", "ep")}
    users = found["users"] * 1.05
    beyond = served(
        resolve(Question(model=MODEL, system="h200", engine="vllm", concurrency=round(users) + 1,
                         **LENGTHS, **more))
    )  # fmt: skip
    assert 1.0 / float(beyond.tpot_s[0]) < speed, "a twentieth more users are too slow"


def test_nothing_of_a_family_is_faster_than_it_can():
    (found,), _ = frontiers.curves(asked(MODEL, **ASKED))
    assert frontiers.at_speed(found, 1e6, UPWARDS["per_device"]) is None
