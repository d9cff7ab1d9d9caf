"""Every figure of `app.charts`, drawn once per colour scheme from one estimate."""

import functools
import json

import plotly.graph_objects as go
import plotly.io
import pytest

import hardware_db
from app.charts import breakdown, hardware, memory, roofline, setups, style
from app.charts.figure import Figure
from app.dashboard import caches
from app.question.question import Question
from app.scenario import intervals, operator_intervals
from app.scenario.intervals import Ranged
from app.scenario.levers import PHASES
from app.scenario.setup import Setup
from app.scenario.summary import step_of

LOOKS = {"light": style.LIGHT, "dark": style.DARK}
both_looks = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
ESTIMATE = caches.priced(Setup())
H100 = hardware_db.load("h100")
WHOLE = Ranged(0.0075, 0.006, 0.01)
LATENCIES = {
    "TTFT": {"bound": Ranged(0.01), "predicted": Ranged(0.02, 0.015, 0.03)},
    "TPOT": {"bound": Ranged(0.001), "predicted": Ranged(0.002)},
}
#: Seconds by cause that sum to `WHOLE`.
CAUSES = {"compute": 0.002, "memory": 0.004, "launch": 0.001, "host": 0.0005, "pipeline": 0.0}
NAMES = (
    "bound", "by cause", "by class", "comparison", "hardware", "icicle", "memory now",
    "memory over", "roofline", "waterfall",
)  # fmt: skip


@functools.cache
def operators(batch: int = 1) -> tuple[dict, ...]:
    """Roofline points of the default scenario at a batch size; not to be changed."""
    estimate = caches.priced(Setup(Question(batch=batch)))
    tables = {
        phase: operator_intervals.operator_table(step_of(estimate, phase)) for phase in PHASES
    }
    return tuple(
        row for phase, table in tables.items() for row in roofline.operator_points(table, phase)
    )


@functools.cache
def frame(batch: int = 1) -> roofline.Frame:
    """The axes of `operators`."""
    estimate = caches.priced(Setup(Question(batch=batch)))
    return roofline.frame([step_of(estimate, phase) for phase in PHASES], H100)


def checked(figure: Figure) -> go.Figure:
    """A figure as Plotly parses it, without unknown properties or changed values."""
    document = json.loads(plotly.io.to_json(figure.document(), validate=False))
    read = go.Figure(document)
    assert json.loads(read.to_json()) == document
    return read


def drawn(name: str, look: style.Look = style.LIGHT) -> go.Figure:
    """One of the figures `NAMES`, as Plotly reads it."""
    return checked(figure(name, look))


@functools.cache
def figure(name: str, look: style.Look = style.LIGHT) -> Figure:
    """One of the figures `NAMES`; shared between tests and not to be changed."""
    classes = operator_intervals.by_class(ESTIMATE.decode)
    step = intervals.step_latency(ESTIMATE, "decode")
    usage = {part: getattr(ESTIMATE.memory, part).tolist() for part in memory.PARTS}
    now = {part: values[0] for part, values in usage.items()}
    limits = {"usable": 79e9, "capacity": 86e9}
    table, points = operator_intervals.operator_table(ESTIMATE.decode), operators()
    draw = {
        "bound": lambda: breakdown.bound_and_predicted(LATENCIES, look),
        "by cause": lambda: breakdown.time_by_cause({"decode": CAUSES}, {"decode": WHOLE}, look),
        "by class": lambda: breakdown.time_by_class({"decode": classes}, {"decode": step}, look),
        "comparison": lambda: setups.stacked_by_class({"A": step}, [classes], "t", look),
        "hardware": lambda: hardware.plane({"h100": H100}, {"h100": ""}, look),
        "icicle": lambda: breakdown.icicle(table, "model", look),
        "memory now": lambda: memory.single(now, limits, look),
        "memory over": lambda: memory.stacked({"at": [1], **usage}, "Batch", limits, look),
        "roofline": lambda: roofline.roofline(points, H100, frame(), look),
        "waterfall": lambda: breakdown.waterfall(CAUSES, WHOLE, "Decode", look),
    }
    return draw[name]()
