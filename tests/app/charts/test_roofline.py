"""The roofline: points below their roofs, areas proportional to time, one point highlighted."""

import copy
import math
from dataclasses import replace

import pytest

import hardware_db
from app.charts import hardware, roofline, style
from app.charts.ceilings import bandwidths
from app.charts.labels import NARROWEST, Room
from app.dashboard import caches
from app.question.question import Question
from app.scenario import operator_intervals
from app.scenario.levers import PHASES
from app.scenario.setup import Setup, system_of
from app.scenario.summary import step_of
from app.wording import quantities
from genz_core.systems import System
from tests.app.charts.figures import H100, checked, drawn, figure, frame, operators
from tests.rules import for_every


def roof_of(row: dict, system: System) -> float:
    """The highest rate at a point's intensity [FLOP/s]."""
    diagonal = row["flops_per_byte"] * system.memory_bytes_per_s
    return min(system.peak_flops_per_s[row["compute"]], diagonal)


def test_no_point_lies_above_its_roof():
    assert len(operators()) > 10
    for row in operators():
        assert row["flops_per_s"] <= roof_of(row, H100) * (1 + 1e-9), row["name"]


def test_a_larger_batch_moves_the_matrix_products_of_decode_to_the_right():
    def intensity(batch: int) -> float:
        return next(
            row["flops_per_byte"]
            for row in operators(batch)
            if row["phase"] == "decode" and row["class"] == "gemm"
        )

    assert intensity(1) == pytest.approx(1.0, rel=0.01)  # 2 FLOPs a 2-byte weight
    assert intensity(64) > 50


def test_areas_are_in_proportion_to_time():
    sizes = {
        row[0]: size
        for trace in drawn("roofline").data
        if trace.customdata is not None
        for row, size in zip(trace.customdata, trace.marker.size, strict=True)
    }
    shares = {row["id"]: row["share"] for row in operators()}
    big = [name for name, share in shares.items() if share > 0.05]
    areas = [sizes[name] ** 2 / shares[name] for name in big]
    assert len(big) > 4
    assert max(areas) == pytest.approx(min(areas))


def test_the_one_chosen_point_alone_keeps_its_error_bar():
    chosen = operators()[0]["id"]
    highlighted = checked(roofline.highlighted(copy.deepcopy(figure("roofline")), chosen))
    kept = [
        row[0]
        for trace in highlighted.data
        if trace.customdata is not None
        for row, end in zip(trace.customdata, trace.error_y.array, strict=True)
        if end is not None
    ]
    assert kept == [chosen]


def test_the_ridge_is_peak_over_bandwidth():
    notes = [note.text for note in drawn("roofline").layout.annotations]
    assert "ridge 295 FLOP/byte" in notes  # 989.4e12 / 3.35e12


def test_the_hover_puts_numbers_into_the_formula_of_the_bound():
    row = next(row for row in operators() if row["phase"] == "decode" and row["class"] == "gemm")
    words = roofline.hover(row, H100)
    flops, moved = quantities.flops(row["flops"]), quantities.size(row["bytes"])
    assert f"bound = max({flops} / 989 TFLOP/s,<br>   {moved} / 3.35 TB/s)" in words
    assert words.endswith("bound by memory")


def test_the_frame_holds_every_point():
    for batch in (1, 512):
        across, upwards = frame(batch)
        for row in operators(batch):
            assert across[0] < row["flops_per_byte"] < across[1]
            assert upwards[0] < row["flops_per_s"] < upwards[1]


def test_a_system_with_every_tier_shows_every_ceiling():
    lines = [trace for trace in drawn("roofline").data if trace.mode == "lines"]
    names = [line.hovertemplate.partition(":")[0] for line in lines]
    links = [link.name for link in H100.links]
    assert len(links) == 2 and names[-len(links) - 1 :] == [*links, "host"]
    assert "memory" in names and {"bf16, fp16 peak, dense", "fp8, int8 peak, dense"} <= set(names)


@pytest.mark.parametrize("batch", [1, 16, 512])
def test_the_names_of_diagonals_lie_on_no_operator(batch: int):
    """On the narrowest frame, at 6 pixels per letter and 13 per line, 6 pixels from the point."""
    rows = operators(batch)
    limits = frame(batch)
    low_x, high_x, low_y, high_y = (math.log10(end) for axis in limits for end in axis)
    wide, high = (size / span for size, span in zip(
        NARROWEST, (high_x - low_x, high_y - low_y), strict=True))  # fmt: skip
    names = [name for name, *_ in bandwidths(H100)]
    notes = roofline.roofline(rows, H100, limits, style.LIGHT).layout["annotations"]
    named = [note for note in notes if any(note["text"].startswith(f"{n} ") for n in names)]
    assert len(named) >= 3
    for note in named:
        for row in rows:
            right = (math.log10(row["flops_per_byte"]) - note["x"]) * wide - 6.0
            down = (note["y"] - math.log10(row["flops_per_s"])) * high
            over = 0.0 < right < 5.5 * len(note["text"]) and 0.0 < down < 13.0
            assert not over, (note["text"], row["name"])


@pytest.mark.parametrize("batch", [1, 512])
def test_the_names_of_points_have_paper_behind_them_and_cover_no_other_point(batch: int):
    rows = [row for row in operators(batch) if row["phase"] == "prefill"]
    picture = roofline.roofline(rows, H100, frame(batch), style.LIGHT)
    names = {row["name"] for row in rows}
    notes = [note for note in picture.layout["annotations"] if note["text"] in names]
    assert notes and all(note["bgcolor"].startswith("rgba(255,255,255") for note in notes)
    room = Room(*frame(batch), (True, True), NARROWEST)
    for note in notes:
        x, y, off = 10 ** note["x"], 10 ** note["y"], note.get("xshift", 0)
        others = [row for row in rows if not math.isclose(row["flops_per_byte"], x)]
        dots = room.dots(*([row[k] for row in others] for k in ("flops_per_byte", "flops_per_s")))
        side = {"left": "right", "right": "left"}.get(note["xanchor"], "center")
        lift = -7.0 if off else note["yshift"] - 15.0
        assert room.claim(x, y, note["text"], 11.0, side, lift=lift, off=dots), note["text"]


def test_a_point_of_the_roofline_spans_the_rates_of_its_interval():
    rows = {row["id"]: row for row in operators()}
    points = [
        point
        for trace in drawn("roofline").data
        if trace.customdata is not None
        for point in zip(
            trace.customdata, trace.y, trace.error_y.array, trace.error_y.arrayminus, strict=True
        )
    ]
    assert {name for (name, _), *_ in points} == set(rows)
    for (name, hover), rate, up, down in points:
        row = rows[name]
        assert rate + up == pytest.approx(row["flops"] * row["runs"] / row["low_s"])
        assert rate - down == pytest.approx(row["flops"] * row["runs"] / row["high_s"])
        assert quantities.span(row["low_s"], row["high_s"]) in hover


@pytest.mark.slow
@for_every(hardware_db.names())
def test_every_system_has_a_roofline_with_its_points_under_it(name: str):
    setup = Setup(Question(system=name))
    estimate, system = caches.priced(setup), system_of(setup)
    tables = {
        phase: operator_intervals.operator_table(step_of(estimate, phase)) for phase in PHASES
    }
    points = [p for phase in PHASES for p in roofline.operator_points(tables[phase], phase)]
    assert all(row["flops_per_s"] <= roof_of(row, system) * (1 + 1e-9) for row in points)
    limits = roofline.frame([step_of(estimate, phase) for phase in PHASES], system)
    picture = roofline.roofline(points, system, limits, style.DARK)
    shown = sum(len(trace.get("customdata", ())) for trace in picture.data)
    assert shown == len(points) > 10


def test_one_system_alone_has_ticks_on_both_axes():
    peaks = {"bf16": 8.355e14}
    system = replace(H100, memory_bytes_per_s=4.9e12, peak_flops_per_s=peaks)
    layout = checked(hardware.plane({"a": system}, {"a": ""}, style.LIGHT)).layout
    assert len(layout.xaxis.tickvals) > 2 and len(layout.yaxis.tickvals) > 2
