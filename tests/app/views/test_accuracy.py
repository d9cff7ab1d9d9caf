"""The page Accuracy: every area shows the figures of the tables."""

import functools
import json

import pytest
from streamlit.testing.v1 import AppTest

from app.accuracy import kept_records, shipped_errors
from app.dashboard import job_results
from hardware_db.profiles.validation import OPERATOR_SPLITS
from tests.app import pages
from tests.app.pages import shown

pytestmark = pytest.mark.usefixtures("kept")


@pytest.fixture
def kept(priced_once: None) -> None:
    """The records of every area are on disk, as after the first visit of the page."""
    for area in kept_records.AREAS:
        kept_records.records(area)


#: Areas, with the title of their last table and their number of charts.
AREAS = {
    "Operators": ("Other tools", 3),
    "Batch points": ("Worst twenty", 2),
    "Serving": ("Worst twenty", 2),
    "How a number is made": ("Its constants", 0),
}


@functools.cache
def opened(area: str) -> AppTest:
    """A newly opened area; read by several tests and changed by none."""
    return pages.opened("accuracy", accuracy_area=area)


def specs(app: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


@pytest.mark.parametrize("area", AREAS)
def test_every_area_opens_to_its_last_table(area: str):
    app = opened(area)
    assert not app.exception and not app.error
    last, charts = AREAS[area]
    assert app.subheader[-1].value == last
    assert len(app.get("plotly_chart")) == charts
    assert all(len(table.value) for table in app.dataframe)


def test_the_operator_table_is_a_row_an_operator_and_a_column_a_split():
    table = opened("Operators").dataframe[0].value.set_index("operator")
    assert {"gemm", "moe", "decode_attention", "collective"} <= set(table.index)
    assert list(table.columns) == list(OPERATOR_SPLITS)
    assert (table["held-out shapes"] < table["roofline"]).all()


def test_every_held_out_operator_is_a_point_of_the_chart():
    figure = specs(opened("Operators"))[1]
    drawn = sum(len(trace.get("customdata", ())) for trace in figure["data"])
    assert drawn == len(shipped_errors.operator_points()["label"]) > 1000


def test_the_parity_plot_has_a_point_for_every_priced_row_and_both_bands(published_records):
    figure, spread = specs(opened("Batch points"))
    names = [trace.get("name") for trace in figure["data"]]
    assert {"within 10%", "within 20%"} <= set(names)
    points = sum(len(trace["customdata"]) for trace in figure["data"] if "customdata" in trace)
    assert points == sum(row["predicted_s"] > 0 for row in published_records)
    assert len(spread["data"][0]["customdata"]) == 40


def test_colours_follow_the_column_that_a_link_names():
    by_phase, _ = specs(opened("Batch points"))
    by_engine, _ = specs(
        pages.opened("accuracy", accuracy_area="Batch points", accuracy_by_batch="engine")
    )
    names = [{trace.get("name") for trace in chart["data"]} for chart in (by_phase, by_engine)]
    assert "decode" in names[0] and "llama.cpp" not in names[0]
    assert "llama.cpp" in names[1] and "decode" not in names[1]


def test_splits_stand_apart_and_name_what_was_left_out():
    app = pages.opened("accuracy", accuracy_area="Serving", accuracy_metric="TTFT")
    splits = app.dataframe[0].value
    of_batches = {"one source left out"}
    assert set(splits["split"]) == set(shipped_errors.SERVING_SPLITS) - of_batches
    assert set(splits["metric"]) == {
        "TTFT", "TTFT, plausible runs", "TTFT, concurrency 1-4", "TTFT, uncorrected",
    }  # fmt: skip
    assert any(
        "shipped constants, so they are in-sample" in caption.value for caption in app.caption
    )


def test_without_fit_errors_the_page_says_so(monkeypatch):
    monkeypatch.setattr(shipped_errors, "table", lambda folder, name: ())
    monkeypatch.setattr(shipped_errors, "operator_series", tuple)
    app = pages.opened("accuracy", accuracy_area="Batch points")
    assert not app.exception
    assert any("No held-out errors yet" in text.value for text in app.markdown)
    assert sum("Not available" in caption.value for caption in app.caption) == 3
    operators = pages.opened("accuracy", accuracy_area="Operators")
    assert operators.info[0].value == "No operator has been validated yet."


def test_the_first_visit_sees_what_needs_no_pricing_and_a_worker_prices_the_rest(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    monkeypatch.setattr(job_results.RESULTS, "get", lambda key: None)
    app = pages.opened("accuracy", accuracy_area="Serving")
    job = app.session_state["accuracy_job"]
    titles = [title.value for title in app.subheader]
    job.end()
    assert not app.exception and not app.error and not app.get("plotly_chart")
    assert "Errors by split [%]" in titles and "Worst twenty" not in titles
    assert job.title == "Pricing every measured run (serving)"


def test_a_number_is_made_of_the_batch_that_stands_for_the_load():
    captions = [caption.value for caption in opened("How a number is made").caption]
    assert any("batch 16" in words for words in captions)
    assert "For a static batch of 16, the batch of this load." in captions


def test_every_state_of_knowledge_is_explained():
    figures = (*shipped_errors.BATCH_METRICS, "tpot_s", "ttft_s")
    known = {row["known"] for row in shipped_errors.interval_coverage(figures)}
    assert known and all(f"**{name}**" in shipped_errors.KNOWN for name in known)


def test_a_scenario_that_cannot_be_is_one_sentence_where_a_number_is_made():
    app = pages.opened("accuracy", accuracy_area="How a number is made", tp=3)
    assert not app.exception
    assert "tp 3" in app.error[0].value


def test_the_users_own_scenario_has_the_latencies_that_exist():
    def said(**question: object) -> str:
        found = (text.value for text in shown("accuracy", **question).markdown)
        return next(text for text in found if text.startswith("**For your scenario**"))

    assert "Latency " in said(model="BAAI/bge-m3") and "TTFT" not in said(model="BAAI/bge-m3")
    assert "TTFT " in said(osl=1) and "TPOT" not in said(osl=1)
    assert "queue grows" in said(model="BAAI/bge-m3", rate="1e9")
