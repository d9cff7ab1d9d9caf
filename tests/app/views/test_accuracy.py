"""The page Accuracy: every area opens, and what it shows is what the tables hold."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from app.accuracy import likely_causes, measured_points, shipped_errors, worked_example
from app.charts import parity, style
from app.scenario.scenario import Scenario, estimate
from hardware_db.profiles.validation import OPERATOR_SPLITS
from tests.app import pages

AREAS = ("Operators", "Batch points", "Serving", "How a number is made")


@pytest.fixture(scope="module")
def published() -> list[dict]:
    return measured_points.published()


def opened(area: str, **query: object) -> AppTest:
    return pages.opened("accuracy", accuracy_area=area, **query)


def specs(app: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


@pytest.mark.parametrize("area", AREAS)
def test_every_area_opens_without_an_exception(area: str):
    app = opened(area)
    assert not app.exception and not app.error
    assert app.title[0].value == "Accuracy"


def test_the_operator_table_is_a_row_an_operator_and_a_column_a_split():
    table = opened("Operators").dataframe[0].value.set_index("operator")
    assert {"gemm", "moe", "decode_attention", "collective"} <= set(table.index)
    assert list(table.columns) == list(OPERATOR_SPLITS)
    assert (table["held-out shapes"] < table["roofline"]).all()


def test_a_series_error_is_averaged_and_not_invented():
    series = shipped_errors.operator_series()
    mine = [r["mape %"] for r in series if (r["operator"], r["split"]) == ("gemm", "sibling")]
    table = {row["operator"]: row for row in shipped_errors.operator_matrix(series)}
    assert table["gemm"]["sibling"] == pytest.approx(sum(mine) / len(mine), abs=0.051)


def test_the_parity_plot_has_a_point_for_every_priced_row_and_both_bands(published):
    figure, spread = specs(opened("Batch points"))
    names = [trace.get("name") for trace in figure["data"]]
    assert {"within 10%", "within 20%"} <= set(names)
    points = sum(len(trace["customdata"]) for trace in figure["data"] if "customdata" in trace)
    assert points == sum(row["predicted_s"] > 0 for row in published)
    assert len(spread["data"][0]["customdata"]) == 40


def test_held_out_operators_are_drawn_where_they_were_measured():
    points = shipped_errors.operator_points()
    assert {row["operator"] for row in points} >= {"gemm", "moe", "decode_attention", "collective"}
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in points]
    roofs = [abs(row["roofline_s"] / row["measured_s"] - 1) for row in points]
    assert sum(errors) / len(errors) < sum(roofs) / len(roofs) / 2
    figure = specs(opened("Operators"))[1]
    assert sum(len(trace.get("customdata", ())) for trace in figure["data"]) == len(points)


def point(predicted: float, measured: float, group: str) -> dict:
    return {"predicted_s": predicted, "measured_s": measured, "group": group, "label": group}


def test_parity_draws_bands_of_ten_and_twenty_percent_and_leaves_out_what_has_no_logarithm():
    points = [point(1.0, 2.0, "a"), point(0.0, 1.0, "a"), point(float("nan"), 1.0, "b")]
    figure = parity.parity(points, "group", "", style.LIGHT)
    wide, narrow = figure.data[0], figure.data[1]
    assert wide.y[0] / wide.x[0] == pytest.approx(0.8)
    assert wide.y[-1] / wide.x[0] == pytest.approx(1.2)
    assert narrow.y[0] / narrow.x[0] == pytest.approx(0.9)
    assert [len(trace.x) for trace in figure.data if trace.mode == "markers"] == [1]


def test_beyond_eight_groups_the_smallest_share_one():
    points = [point(1.0, 1.0, f"g{at}") for at in range(12) for _ in range(12 - at)]
    found = parity.largest_groups(points, "group")
    assert list(found)[:8] == [f"g{at}" for at in range(8)]
    assert len(found[parity.REST]) == 4 + 3 + 2 + 1
    assert sum(map(len, found.values())) == len(points)


def test_errors_beyond_a_factor_of_four_are_counted_at_the_ends():
    ratios = [0.01, 0.5, 1.0, 1.0, 2.0, 97.0]
    figure = parity.error_histogram([point(r, 1.0, "") for r in ratios], "", style.DARK)
    counts = list(figure.data[0].y)
    assert sum(counts) == len(ratios) and counts[0] == 1 and counts[-1] == 1


def test_colours_follow_the_column_that_a_link_names():
    first, _ = specs(opened("Batch points", accuracy_by_batch="engine"))
    assert any(trace.get("name") == "llama.cpp" for trace in first["data"])


def test_splits_stand_apart_and_name_what_was_left_out():
    app = opened("Serving", accuracy_metric="TTFT")
    splits = app.dataframe[0].value
    assert set(splits["split"]) == set(shipped_errors.SERVING_SPLITS)
    assert set(splits["metric"]) == {"ttft_s", "ttft_s, possible"}
    assert any("in sample" in caption.value for caption in app.caption)


def test_without_fit_errors_the_page_says_so(monkeypatch):
    monkeypatch.setattr(shipped_errors, "table", lambda room, name: ())
    app = opened("Batch points")
    assert not app.exception
    assert any("No held-out errors yet" in text.value for text in app.markdown)
    assert any("Not written yet" in caption.value for caption in app.caption)
    assert "No operator was validated yet" in opened("Operators").info[0].value


def test_every_peer_figure_has_a_source():
    rows = [
        row for area in ("operators", "published", "serving") for row in shipped_errors.peers(area)
    ]
    assert len(rows) >= 10
    assert all(row["source"] and row["rows"] and row["peer"] for row in rows)
    assert {row["metric"] for row in shipped_errors.peers("serving", "tpot_s")} == {"tpot_s"}


def test_the_worst_rows_come_with_a_suspicion(published):
    worst = likely_causes.suspected_records(published, measured_points.worst(published))
    assert len(worst) == 20 and all(row["suspected"] for row in worst)
    assert not any("suspected" in row for row in published)


def run(metric: str, ratio: float, **facts: object) -> dict:
    row = {"metric": metric, "predicted_s": ratio, "measured_s": 1.0, "status": "ok"}
    return row | {"model": "gpt2", "origin": "public_benchmark", **facts}


@pytest.mark.parametrize(
    ("row", "other", "said"),
    [
        (run("tpot_s", 5.0), run("ttft_s", 0.01), "fewer ran than were open"),
        (run("ttft_s", 0.01), run("tpot_s", 5.0), "fewer ran than were open"),
        (run("tpot_s", 8.0), run("ttft_s", 90.0), "may not have run"),
        (run("ttft_s", 0.05), run("tpot_s", 1.0), "KV capacity"),
        (run("tpot_s", 2.0, model="deepseek-ai/DeepSeek-R1"), None, "multi-token prediction"),
        (run("tpot_s", 2.0), None, "not understood"),
        (run("tpot_s", 0.4, origin="vendor_grid"), None, "vendor's grid"),
        (run("tpot_s", 2.0, status="out_of_memory"), None, "does not fit"),
    ],
)
def test_a_suspicion_follows_from_both_figures_of_a_run(row: dict, other: dict | None, said: str):
    assert said in likely_causes.suspicion(row, other)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(),
        Scenario(weights="fp8", tp=2),
        Scenario(model="deepseek-ai/DeepSeek-V3", system="mi300x", tp=8, ep=8),
        Scenario(model="nvidia/Nemotron-H-56B-Base-8K"),
    ],
    ids=["dense", "fp8", "experts and latent attention", "state space"],
)
def test_every_operator_can_be_taken_apart(scenario: Scenario, phase: str):
    priced = estimate(scenario)
    step = priced.prefill if phase == "prefill" else priced.decode
    for row in worked_example.operators_by_time(step):
        work = worked_example.work_through(step, row)
        assert work.equation, work.model
        assert work.expected_s >= work.bound_s
        said = worked_example.markdown(work, phase)
        assert "nan" not in said and "One run takes" in said
        assert worked_example.constant_rows(work)


@pytest.mark.parametrize("weights", ["", "fp8", "int4", "nvfp4"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_terms_of_every_operator_make_its_time(phase: str, weights: str):
    step = getattr(estimate(Scenario(weights=weights)), phase)
    for row in range(len(step.graph.ops)):
        work = worked_example.work_through(step, row)
        total = sum(float(term) for term in work.price.terms.values())
        assert total == pytest.approx(step.expected_s[row, 0], rel=1e-9), work.op.name
        assert len(worked_example.term_rows(work)) == sum(
            float(term) > 1e-6 * work.expected_s for term in work.price.terms.values()
        )


def test_a_scenario_that_cannot_be_is_one_sentence_where_a_number_is_made():
    app = opened("How a number is made", tp=3)
    assert not app.exception
    assert "tp 3" in app.error[0].value
