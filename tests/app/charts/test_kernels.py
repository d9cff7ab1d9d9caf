"""Measured kernels: the lines of the roofs are labelled."""

import pandas as pd

from app.charts import kernels, style
from tests.app.charts.figures import checked


def test_roofs_are_named_on_their_lines_and_axes_have_words():
    points = pd.DataFrame({"name": ["k"], "count": [1], "time_s": [1e-3], "at_least": [False],
        "operator_class": ["gemm"], "compute_pct": [50.0], "dram_pct": [50.0],
        "flops_per_s": [1e14], "flops_per_byte": [100.0]})  # fmt: skip
    peaks = {"bf16": 1e15, "fp16": 1e15, "fp32": 6e13}
    figure = checked(kernels.counter_roofline(points, 3e12, peaks, style.LIGHT))
    names = {note.text for note in figure.layout.annotations}
    assert names == {"memory 3.00 TB/s", "fp32 60.0 TFLOP/s", "bf16, fp16 1.00 PFLOP/s"}
    assert "100 TFLOP/s" in figure.layout.yaxis.ticktext
