"""The timeline: at most so many bars, no event lost, names without markup."""

import pytest

import profilers
from app.charts import style, timeline
from tests.app.charts.figures import checked
from tests.app.pages import QWEN


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
        merged = coarse[coarse["lane"] == lane]
        end = (rows["start_s"] + rows["duration_s"]).max()
        assert merged["start_s"].min() == rows["start_s"].min()
        assert (merged["start_s"] + merged["duration_s"]).max() == pytest.approx(end)


def test_the_timeline_escapes_names_of_kernels(qwen):
    bars = timeline.activity_bars(qwen.kernels, qwen.copies, 50).assign(name="<b>bold</b>")
    figure = checked(timeline.timeline(bars, timeline.range_bars(qwen.ranges), style.LIGHT))
    names = [row[0] for trace in figure.data[1:] for row in trace.customdata]
    assert set(names) == {"&lt;b&gt;bold&lt;/b&gt;"}
