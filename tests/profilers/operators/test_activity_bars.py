"""Bars of a timeline: a bounded number, and no event is lost."""

import pytest

import profilers
from profilers.operators import activity_bars
from tests.app.pages import QWEN


@pytest.fixture(scope="module")
def qwen() -> profilers.Report:
    return profilers.read_report(QWEN)


@pytest.fixture(scope="module")
def events(qwen) -> activity_bars.Events:
    return activity_bars.events(qwen.kernels, qwen.copies)


@pytest.mark.parametrize("most", [1, 7, 100, 2000])
def test_a_timeline_has_at_most_so_many_bars_and_loses_no_event(qwen, events, most: int):
    bars = activity_bars.activity_bars(events, most)
    assert len(bars) <= most
    assert bars["events"].sum() == len(qwen.kernels) + len(qwen.copies)


def test_lanes_beyond_the_most_bars_are_left_out(qwen):
    kernels = qwen.kernels.assign(stream=range(len(qwen.kernels)))
    many = activity_bars.events(kernels, qwen.copies)
    assert activity_bars.activity_bars(many, 10_000)["lane"].nunique() > 1000
    bars = activity_bars.activity_bars(many, 3)
    assert len(bars) == bars["lane"].nunique() == 3


def test_bars_that_share_keep_where_a_lane_starts_and_ends(events):
    fine, coarse = (activity_bars.activity_bars(events, most) for most in (10_000, 20))
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
    bars = activity_bars.found_bars(events, found, 200)
    assert len(bars) <= 200
    assert bars.groupby("found")["events"].sum().to_dict() == {
        True: found.sum(),
        False: (~found).sum(),
    }
