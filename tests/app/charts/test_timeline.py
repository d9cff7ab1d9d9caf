"""The timeline: a bounded number of bars, no event lost, names without markup."""

import numpy as np
import pytest

import profilers
from app.charts import style, timeline
from profilers.timeline.window import bands
from tests.app.charts.figures import checked
from tests.app.pages import QWEN, ROOT

SGLANG = ROOT / "app" / "samples" / "mi300x_qwen3-8b_decode_sglang.json.gz"


@pytest.fixture(scope="module")
def qwen() -> profilers.Report:
    return profilers.read_report(QWEN)


@pytest.fixture(scope="module")
def events(qwen) -> timeline.Events:
    return timeline.events(qwen.kernels, qwen.copies)


@pytest.mark.parametrize("most", [1, 7, 100, 2000])
def test_a_timeline_has_at_most_so_many_bars_and_loses_no_event(qwen, events, most: int):
    bars = timeline.activity_bars(events, most)
    assert len(bars) <= most
    assert bars["events"].sum() == len(qwen.kernels) + len(qwen.copies)


def test_lanes_beyond_the_most_bars_are_left_out(qwen):
    kernels = qwen.kernels.assign(stream=range(len(qwen.kernels)))
    many = timeline.events(kernels, qwen.copies)
    assert timeline.activity_bars(many, 10_000)["lane"].nunique() > 1000
    bars = timeline.activity_bars(many, 3)
    assert len(bars) == bars["lane"].nunique() == 3


def test_bars_that_share_keep_where_a_lane_starts_and_ends(events):
    fine, coarse = (timeline.activity_bars(events, most) for most in (10_000, 20))
    for lane, rows in fine.groupby("lane"):
        merged = coarse[coarse["lane"] == lane]
        end = (rows["start_s"] + rows["duration_s"]).max()
        assert merged["start_s"].min() == rows["start_s"].min()
        assert (merged["start_s"] + merged["duration_s"]).max() == pytest.approx(end)


def test_a_span_holds_what_overlaps_it_and_nothing_else(events):
    span = (0.010, 0.012)
    rows = events.within(span)
    assert 0 < len(rows.lane) < len(events.lane)
    assert (rows.end_s > span[0]).all() and (rows.start_s < span[1]).all()
    before, after = events.within((-1.0, span[0])), events.within((span[1], 1.0))
    across = sum(((events.start_s < edge) & (events.end_s > edge)).sum() for edge in span)
    assert len(rows.lane) + len(before.lane) + len(after.lane) == len(events.lane) + across


def test_a_search_finds_names_that_hold_all_its_words_whatever_their_case(qwen, events):
    names = qwen.kernels["name"].astype(object)
    of_kernels = names.str.lower().str.contains("elementwise") & names.str.lower().str.contains(
        "bfloat16"
    )
    assert events.called("BFloat16 ELEMENTWISE").sum() == of_kernels.sum() > 0


def test_what_was_found_shares_no_bar_with_the_rest(events):
    found = events.called("gemm")
    bars = timeline.found_bars(events, found, 200)
    assert len(bars) <= 200
    assert bars.groupby("found")["events"].sum().to_dict() == {
        True: found.sum(),
        False: (~found).sum(),
    }


def test_a_search_without_hits_draws_everything_faint(events):
    bars = timeline.found_bars(events, np.zeros(len(events.lane), dtype=bool), 50)
    figure = timeline.timeline(timeline.Rows(bars, *_nothing_above()), events.span, style.LIGHT)
    assert {value for trace in figure.data for value in trace["marker"]["opacity"]} == {0.12}


def _nothing_above():
    report = profilers.read_report(QWEN)
    return timeline.range_bars(report.ranges.head(0)), bands(report).head(0)


def test_phases_and_steps_are_bars_of_their_own_and_phases_shade_the_chart():
    report = profilers.read_report(SGLANG)
    events = timeline.events(report.kernels, report.copies)
    above = bands(report)
    assert set(above["lane"]) == {"steps", "phases"} and set(above["phase"]) == {"decode"}
    rows = timeline.Rows(timeline.activity_bars(events), timeline.range_bars(report.ranges), above)
    figure = checked(timeline.timeline(rows, events.span, style.DARK))
    assert "Decode" in {trace.name for trace in figure.data}
    assert len(figure.layout.shapes) == 1


def test_the_timeline_escapes_names_of_kernels(qwen, events):
    bars = timeline.activity_bars(events, 50).assign(name="<b>bold</b>")
    rows = timeline.Rows(bars, *_nothing_above())
    figure = checked(timeline.timeline(rows, events.span, style.LIGHT))
    names = [row[0] for trace in figure.data for row in trace.customdata]
    assert set(names) == {"&lt;b&gt;bold&lt;/b&gt;"}
