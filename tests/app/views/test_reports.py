"""Page Reports: uploads, cards, the timeline, tables, the trace for other tools, the roofline."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

import profilers
from app.charts import kernels, style, timeline
from app.dashboard import report_uploads
from tests.app.pages import DECODE, PREFILL, QWEN, brought, cards, opened


def test_the_reports_page_invites_before_anything_is_uploaded():
    app = opened("reports")
    assert not app.exception
    assert "try a sample" in app.info[0].value


@pytest.mark.parametrize("sample", list(report_uploads.SAMPLES))
def test_every_sample_opens(sample: str):
    app = opened("reports")
    app.pills("report_samples").set_value([sample]).run()
    assert not app.exception and not app.error
    assert cards(app)["Kernel launches"] != "–"


def test_cards_show_what_the_summary_says():
    app = opened("reports")
    app.pills("report_samples").set_value([next(iter(report_uploads.SAMPLES))]).run()
    assert cards(app)["Kernel launches"] == "1,465"
    assert cards(app)["Kernel time"] == "45.4 ms"


def test_an_uploaded_report_is_drawn_and_two_are_compared():
    app = brought(opened("reports"), "report_files", PREFILL, DECODE)
    assert not app.exception and not app.error
    assert cards(app)["Kernel launches"] == "6,660"
    assert any("Kernel time changes by **113 ms** less" in text.value for text in app.markdown)
    table = app.dataframe[-1].value
    assert table["change [µs]"].sum() == pytest.approx(-113e3, rel=0.01)


def test_half_an_upload_is_a_sentence_beside_what_could_be_read(tmp_path: Path):
    half = tmp_path / "half.json"
    whole = gzip.decompress(QWEN.read_bytes())
    half.write_bytes(whole[: len(whole) // 2])
    app = brought(opened("reports"), "report_files", half, DECODE)
    assert not app.exception
    assert app.error[0].value.startswith("half.json")
    assert cards(app)["Kernel launches"] == "78,016"


@pytest.fixture(scope="module")
def qwen() -> profilers.Report:
    return profilers.read_report(QWEN)


@pytest.mark.parametrize("most", [1, 7, 100, 2000])
def test_a_timeline_has_at_most_so_many_bars_and_loses_no_event(qwen, most: int):
    bars = timeline.activity_bars(qwen.kernels, qwen.copies, most)
    assert len(bars) <= most
    assert bars["events"].sum() == len(qwen.kernels) + len(qwen.copies)


def test_lanes_beyond_the_most_bars_are_left_out(qwen):
    kernels = qwen.kernels.assign(stream=range(len(qwen.kernels)))
    assert timeline.activity_bars(kernels, qwen.copies, 10_000)["lane"].nunique() > 1000
    bars = timeline.activity_bars(kernels, qwen.copies, 3)
    assert len(bars) == bars["lane"].nunique() == 3


def test_bars_that_share_keep_where_a_lane_starts_and_ends(qwen):
    fine, coarse = (
        timeline.activity_bars(qwen.kernels, qwen.copies, most) for most in (10_000, 20)
    )
    for lane, rows in fine.groupby("lane"):
        here = coarse[coarse["lane"] == lane]
        end = (rows["start_s"] + rows["duration_s"]).max()
        assert here["start_s"].min() == rows["start_s"].min()
        assert (here["start_s"] + here["duration_s"]).max() == pytest.approx(end)


def test_the_timeline_escapes_names_of_kernels(qwen):
    bars = timeline.activity_bars(qwen.kernels, qwen.copies, 50).assign(name="<b>bold</b>")
    figure = timeline.timeline(bars, timeline.range_bars(qwen.ranges), style.LIGHT)
    said = [row[0] for trace in figure.data[1:] for row in trace.customdata]
    assert set(said) == {"&lt;b&gt;bold&lt;/b&gt;"}


def test_the_roofline_of_a_report_is_drawn_under_the_roofs_it_states():
    app = opened("reports")
    app.pills("report_samples").set_value(["The roofline of that kernel (ncu)"]).run()
    app.session_state["report_tabs"] = "Roofline"
    app.run()
    assert not app.exception
    assert any("CUDA cores alone" in caption.value for caption in app.caption)
    assert len(app.get("plotly_chart")) == 2


def test_roofs_are_named_on_their_lines_and_axes_have_words():
    points = pd.DataFrame({"name": ["k"], "count": [1], "time_s": [1e-3], "at_least": [False],
        "operator_class": ["gemm"], "compute_pct": [50.0], "dram_pct": [50.0],
        "flops_per_s": [1e14], "flops_per_byte": [100.0]})  # fmt: skip
    peaks = {"bf16": 1e15, "fp16": 1e15, "fp32": 6e13}
    figure = kernels.counter_roofline(points, 3e12, peaks, style.LIGHT)
    said = [note.text for note in figure.layout.annotations]
    assert said == ["memory 3.00 TB/s", "fp32 60.0 TFLOP/s", "bf16, fp16 1.00 PFLOP/s"]
    assert "100 TFLOP/s" in figure.layout.yaxis.ticktext
