"""Charts: the figures say what the tables say, in light and in dark, and export as they look."""

import math
import tomllib
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

import hardware_db
from app.charts import breakdown, comparison, hardware, memory, roofline, style
from app.dashboard import cached, display_tables, export
from app.scenario import intervals
from app.scenario.intervals import Latency
from app.scenario.levers import PHASES
from app.scenario.scenario import Scenario
from app.scenario.setup import Setup, system_of
from app.scenario.summary import step_of
from app.wording import quantities

LOOKS = [style.LIGHT, style.DARK]
CONFIG = tomllib.loads(
    (Path(__file__).parents[2] / "app" / ".streamlit" / "config.toml").read_text(encoding="utf-8")
)
ESTIMATE = cached.priced(Setup())
H100 = hardware_db.load("h100")
WHOLE = Latency(0.0075, 0.006, 0.01)
LATENCIES = {
    "TTFT": {"bound": Latency(0.01), "predicted": Latency(0.02, 0.015, 0.03)},
    "TPOT": {"bound": Latency(0.001), "predicted": Latency(0.002)},
}
FALL = {"compute": 0.002, "memory": 0.004, "overhead": 0.001, "host": 0.0005, "pipeline": 0.0}


def rows(batch: int = 1) -> list[dict]:
    estimate = cached.priced(Setup(Scenario(batch=batch)))
    return [
        row
        for phase in PHASES
        for row in roofline.operator_points(
            intervals.operator_table(step_of(estimate, phase)), phase
        )
    ]


def figures(look: style.Look) -> dict[str, go.Figure]:
    table, found = intervals.operator_table(ESTIMATE.decode), rows()
    classes = intervals.by_class(ESTIMATE.decode)
    step = intervals.step_latency(ESTIMATE, "decode")
    held = {name: getattr(ESTIMATE.memory, name).tolist() for name in memory.PARTS}
    limits = {"usable": 79e9, "capacity": 86e9}
    now = {name: values[0] for name, values in held.items()}
    systems = [{"slug": "h100", "name": "H100", "vendor": "NVIDIA", "kind": "gpu", "words": "",
                "memory_bytes_per_s": 3.35e12, "peak_flops_per_s": 1e15}]  # fmt: skip
    return {
        "roofline": roofline.roofline(found, H100, roofline.frame(found, H100), look),
        "by class": breakdown.time_by_class({"decode": classes}, {"decode": step}, look),
        "by part": breakdown.time_by_cause({"decode": FALL}, {"decode": WHOLE}, look),
        "waterfall": breakdown.waterfall(FALL, WHOLE, "Decode", look),
        "icicle": breakdown.icicle(table, "model", look),
        "bound": breakdown.bound_and_predicted(LATENCIES, look),
        "memory over": memory.stacked({"at": [1], **held}, "Batch", limits, look),
        "memory now": memory.single(now, limits, look),
        "comparison": comparison.stacked_by_class({"A": step}, [classes], "t", look),
        "hardware": hardware.plane(systems, look),
    }


NAMES = sorted(figures(style.LIGHT))


# ------------------------------------------------------------------------------- colours


def linear(colors: tuple[str, ...]) -> np.ndarray:
    channels = np.array([[int(c[at : at + 2], 16) / 255 for at in (1, 3, 5)] for c in colors])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* (D65) of linear sRGB."""
    matrix = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = np.clip(rgb, 0, 1) @ matrix.T / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


# Machado, Oliveira and Fernandes 2009, doi:10.1109/TVCG.2009.113, severity 1.0.
SIGHTS = {
    "normal": np.eye(3),
    "protanope": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranope": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}


@pytest.mark.parametrize("look", LOOKS, ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_are_told_apart_under_every_sight(look: style.Look, sight: str):
    colors = (*look.classes, look.rest)
    assert len(set(colors)) == 11
    seen = lab(linear(colors) @ SIGHTS[sight].T)
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=2) + 1e3 * np.eye(11)
    assert distance.min() > 10


@pytest.mark.parametrize("look", LOOKS, ids=["light", "dark"])
def test_text_contrasts_with_its_paper(look: style.Look):
    for ink, least in ((look.ink, 7.0), (look.faint, 4.5), (look.alarm, 4.5), (look.rest, 3.0)):
        assert style.contrast(ink, look.paper) >= least


def test_contrast_is_that_of_the_standard():
    assert style.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert style.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # WebAIM's page


@pytest.mark.parametrize("look", LOOKS, ids=["light", "dark"])
def test_words_in_a_bar_are_read_on_its_colour(look: style.Look):
    for name in ("by class", "by part", "memory now"):
        for bar in figures(look)[name].data:
            assert style.contrast(bar.insidetextfont.color, bar.marker.color) >= 3.9
    (tree,) = figures(look)["icicle"].data
    for ink, fill in zip(tree.textfont.color, tree.marker.colors, strict=True):
        assert style.contrast(ink, fill) >= 3.9


@pytest.mark.parametrize(("name", "look"), [("light", style.LIGHT), ("dark", style.DARK)])
def test_charts_and_theme_agree_on_colours(name: str, look: style.Look):
    theme = CONFIG["theme"][name]
    assert tuple(theme["chartCategoricalColors"]) == look.classes
    assert theme["backgroundColor"] == look.paper
    assert theme["textColor"] == look.ink


def test_the_dashboard_sends_no_statistics_and_shows_no_deploy_button():
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["toolbarMode"] == "viewer"


# ------------------------------------------------------------------------------- every figure


@pytest.mark.parametrize("look", LOOKS, ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_carries_its_whole_look(name: str, look: style.Look):
    layout = figures(look)[name].layout.template.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == look.paper
    assert layout.font.color == look.ink
    assert tuple(layout.colorway) == look.classes


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_exports_as_a_page_that_needs_no_network(name: str):
    page = export.html(figures(style.LIGHT)[name], name)
    assert "cdn.plot.ly" not in page.partition("</script>")[0]
    assert 'src="http' not in page
    assert f"<title>Ridgeline: {name}</title>" in page


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"icicle"}))
def test_every_axis_with_numbers_names_its_unit(name: str):
    figure = figures(style.LIGHT)[name]
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        numeric = axis.tickformat or axis.type == "log"
        percent = (axis.tickformat or "").endswith("%")
        assert not numeric or percent or "[" in axis.title.text


# ------------------------------------------------------------------------------- roofline


@pytest.mark.parametrize("limits", [(1e-6, 1.0), (2.1e-3, 4.6e-3), (3.9e12, 4.9e12), (90.0, 110.0)])
def test_a_logarithmic_axis_has_ticks_however_narrow_it_is(limits: tuple[float, float]):
    ticks = style.log_ticks(limits, quantities.seconds)["tickvals"]
    assert ticks == sorted(set(ticks)) and len(ticks) >= 1
    assert limits[0] <= ticks[0] and ticks[-1] <= limits[1]


def test_one_system_alone_has_ticks_on_both_axes():
    one = {"slug": "a", "name": "A", "vendor": "v", "kind": "gpu", "words": "",
           "memory_bytes_per_s": 4.9e12, "peak_flops_per_s": 8.355e14}  # fmt: skip
    figure = hardware.plane([one], style.LIGHT)
    assert len(figure.layout.xaxis.tickvals) > 2 and len(figure.layout.yaxis.tickvals) > 2


def test_no_point_lies_above_its_roof():
    for row in rows():
        roof = min(
            H100.peak_flops_per_s[row["compute"]], row["flops_per_byte"] * H100.memory_bytes_per_s
        )
        assert row["flops_per_s"] <= roof * (1 + 1e-9), row["name"]


def test_a_larger_batch_moves_the_matrix_products_of_decode_to_the_right():
    def intensity(batch: int) -> float:
        return next(
            row["flops_per_byte"]
            for row in rows(batch)
            if row["phase"] == "decode" and row["class"] == "gemm"
        )

    assert intensity(1) == pytest.approx(1.0, rel=0.01)  # 2 FLOPs a 2-byte weight
    assert intensity(64) > 50


def test_areas_are_in_proportion_to_time():
    figure = figures(style.LIGHT)["roofline"]
    sizes = {
        row[0]: size
        for trace in figure.data
        if trace.customdata is not None
        for row, size in zip(trace.customdata, trace.marker.size, strict=True)
    }
    shares = {row["id"]: row["share"] for row in rows()}
    big = [name for name, share in shares.items() if share > 0.05]
    areas = [sizes[name] ** 2 / shares[name] for name in big]
    assert len(big) > 4
    assert max(areas) == pytest.approx(min(areas))


def test_the_one_chosen_point_alone_keeps_its_error_bar():
    chosen = rows()[0]["id"]
    figure = roofline.highlighted(figures(style.LIGHT)["roofline"], chosen)
    kept = [
        row[0]
        for trace in figure.data
        if trace.customdata is not None
        for row, end in zip(trace.customdata, trace.error_y.array, strict=True)
        if not math.isnan(end)
    ]
    assert kept == [chosen]


def test_the_ridge_is_peak_over_bandwidth():
    notes = [note.text for note in figures(style.LIGHT)["roofline"].layout.annotations]
    assert "ridge 295 FLOP/byte" in notes  # 989.4e12 / 3.35e12


def test_the_hover_puts_numbers_into_the_formula_of_the_bound():
    row = next(row for row in rows() if row["phase"] == "decode" and row["class"] == "gemm")
    said = roofline.hover(row, H100)
    assert "bound = max(" in said
    assert "989 TFLOP/s" in said
    assert "3.35 TB/s" in said


def test_the_frame_holds_every_point():
    found = rows(1) + rows(512)
    limits = roofline.frame(found, H100)
    for row in found:
        assert limits.x[0] < row["flops_per_byte"] < limits.x[1]
        assert limits.y[0] < row["flops_per_s"] < limits.y[1] or row["flops_per_s"] < 1e9


def test_a_system_with_every_tier_shows_every_ceiling():
    traces = figures(style.LIGHT)["roofline"].data
    said = " ".join(trace.hovertemplate or "" for trace in traces)
    for name in ("memory", "bf16", "fp8", *(link.name for link in H100.links)):
        assert name in said


# ------------------------------------------------------------------------------- breakdown


def test_the_bars_of_a_step_sum_to_one():
    for name in ("by class", "by part"):
        total = sum(trace.x[0] for trace in figures(style.LIGHT)[name].data)
        assert total == pytest.approx(1.0)


def test_the_waterfall_ends_where_its_parts_do():
    bars = breakdown.waterfall(FALL, WHOLE, "Decode", style.LIGHT).data[0]
    assert bars.y[-1] == pytest.approx(sum(FALL.values()) * 1e3)
    assert bars.base[-2] + bars.y[-2] == pytest.approx(bars.y[-1])
    assert len(bars.x) == 5  # a part of no time has no bar


def test_the_icicle_adds_up_from_operator_to_model():
    trace = figures(style.LIGHT)["icicle"].data[0]
    values = dict(zip(trace.ids, trace.values, strict=True))
    children: dict[str, float] = {}
    for parent, value in zip(trace.parents, trace.values, strict=True):
        children[parent] = children.get(parent, 0.0) + value
    for parent, total in children.items():
        if parent:
            assert total == pytest.approx(values[parent])
    assert values["model"] == pytest.approx(float(ESTIMATE.decode.operators_s[:, 0].sum()))


# ------------------------------------------------------------------------------- tables


def test_the_operator_table_leaves_out_only_what_takes_no_time():
    raw = intervals.operator_table(ESTIMATE.decode)
    shown = display_tables.operator_rows(raw, "decode")
    assert shown["predicted [µs]"].sum() == pytest.approx(sum(raw["predicted_s"]) * 1e6)
    assert shown["predicted [µs]"].is_monotonic_decreasing
    assert (shown["bound [µs]"] <= shown["predicted [µs]"] * (1 + 1e-9)).all()


def test_a_comparison_puts_the_change_beside_the_value():
    other = cached.priced(Setup(bandwidth=2.0))
    table = display_tables.figures_by_scenario(["A", "B"], [ESTIMATE, other])
    row = display_tables.comparison_numbers(table).set_index("figure").loc["TPOT, bound"]
    assert row["B"] == pytest.approx(row["A"] / 2)
    words = display_tables.comparison_words(table).set_index("figure")["B"]
    assert words["TPOT, bound"].endswith("(−50 %)")
    assert "[not validated]" in words["TPOT"]  # twice the bandwidth: nobody measured that
    assert "[" not in words["TPOT, bound"]


def test_the_error_bar_of_a_prediction_ends_where_its_interval_does():
    figure = figures(style.LIGHT)["bound"]
    known, unknown = (trace for trace in figure.data if trace.type == "scatter")
    assert list(known.x) == ["predicted"]  # a bound needs no interval
    assert known.error_y.array == pytest.approx([10.0])  # 20 to 30 ms
    assert known.error_y.arrayminus == pytest.approx([5.0])
    assert not unknown.x
    assert "15.0 to 30.0 ms" in figure.layout.xaxis.ticktext[1]
    assert "not validated" in figure.layout.xaxis2.ticktext[1]


def test_a_point_of_the_roofline_spans_the_rates_of_its_interval():
    by_name = {row["id"]: row for row in rows()}
    for trace in figures(style.LIGHT)["roofline"].data:
        if trace.customdata is None:
            continue
        for (name, said), rate, up, down in zip(
            trace.customdata, trace.y, trace.error_y.array, trace.error_y.arrayminus, strict=True
        ):
            row = by_name[name]
            assert rate + up == pytest.approx(row["flops"] * row["runs"] / row["low_s"])
            assert rate - down == pytest.approx(row["flops"] * row["runs"] / row["high_s"])
            assert quantities.span(row["low_s"], row["high_s"]) in said


def test_a_bar_beyond_what_is_usable_is_marked_as_not_fitting():
    table = {"at": [1, 2]} | {name: [30e9, 60e9] for name in memory.PARTS}
    figure = memory.stacked(table, "Batch", {"usable": 150e9, "capacity": 160e9}, style.LIGHT)
    assert "shaded: does not fit" in [note.text for note in figure.layout.annotations]
    assert math.isclose(figure.layout.shapes[-1].x0, 0.5)


def test_where_nothing_fits_the_least_bar_is_still_seen_whole():
    table = {"at": [1, 2]} | {name: [100e9, 200e9] for name in memory.PARTS}
    figure = memory.stacked(table, "Batch", {"usable": 23e9, "capacity": 26e9}, style.LIGHT)
    assert figure.layout.yaxis.range[1] > 400  # GB: four parts of 100


@pytest.mark.skipif(not export.can_draw(), reason="no kaleido, or no browser to draw with")
def test_an_svg_drawn_on_the_server_has_the_colours_of_the_page():
    drawn = export.image(breakdown.waterfall(FALL, WHOLE, "Decode", style.DARK), "svg").decode()
    assert "<svg" in drawn
    assert "rgb(84, 140, 245)" in drawn  # compute, as the dark palette has it
    assert "rgb(17, 22, 29)" in drawn  # the paper


@pytest.mark.parametrize("name", hardware_db.names())
def test_every_system_has_a_roofline_with_its_points_under_it(name: str):
    setup = Setup(Scenario(system=name))
    estimate, system = cached.priced(setup), system_of(setup)
    found = [
        row
        for phase in PHASES
        for row in roofline.operator_points(
            intervals.operator_table(step_of(estimate, phase)), phase
        )
    ]
    figure = roofline.roofline(found, system, roofline.frame(found, system), style.DARK)
    drawn = sum(len(trace.customdata) for trace in figure.data if trace.customdata is not None)
    assert drawn == len(found) > 10
