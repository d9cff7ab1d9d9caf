"""The timeline: phases and steps above the streams, names without markup."""

import numpy as np
import pytest

import profilers
from app.charts import style, timeline
from profilers.operators import activity_bars
from profilers.timeline.window import bands
from tests.app.charts.figures import checked
from tests.app.pages import QWEN, ROOT

SGLANG = ROOT / "app" / "samples" / "mi300x_qwen3-8b_decode_sglang.json.gz"


@pytest.fixture(scope="module")
def qwen() -> profilers.Report:
    return profilers.read_report(QWEN)


@pytest.fixture(scope="module")
def events(qwen) -> activity_bars.Events:
    return activity_bars.events(qwen.kernels, qwen.copies)


def test_a_search_without_hits_draws_everything_faint(events):
    bars = activity_bars.found_bars(events, np.zeros(len(events.lane), dtype=bool), 50)
    figure = timeline.timeline(bars, *_nothing_above(), events.span, style.LIGHT)
    assert {value for trace in figure.data for value in trace["marker"]["opacity"]} == {0.12}


def _nothing_above():
    report = profilers.read_report(QWEN)
    return activity_bars.range_bars(report.ranges.head(0)), bands(report).head(0)


def test_phases_and_steps_are_bars_of_their_own_and_phases_shade_the_chart():
    report = profilers.read_report(SGLANG)
    events = activity_bars.events(report.kernels, report.copies)
    above = bands(report)
    assert set(above["lane"]) == {"steps", "phases"} and set(above["phase"]) == {"decode"}
    bars, ranges = activity_bars.activity_bars(events), activity_bars.range_bars(report.ranges)
    figure = checked(timeline.timeline(bars, ranges, above, events.span, style.DARK))
    assert "Decode" in {trace.name for trace in figure.data}
    assert len(figure.layout.shapes) == 1


def test_the_timeline_escapes_names_of_kernels(qwen, events):
    bars = activity_bars.activity_bars(events, 50).assign(name="<b>bold</b>")
    figure = checked(timeline.timeline(bars, *_nothing_above(), events.span, style.LIGHT))
    names = [row[0] for trace in figure.data for row in trace.customdata]
    assert set(names) == {"&lt;b&gt;bold&lt;/b&gt;"}
