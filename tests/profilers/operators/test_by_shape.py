"""Operators grouped by the shapes of their inputs, against torch's own grouping."""

import gzip
import json
from collections import Counter

import pytest

import profilers
from genz_core.errors import ReportError
from profilers.operators.by_shape import operators_by_shape
from tests.app.commands.test_cli import run

SAMPLE = "app/samples/h100_qwen1.5-0.5b.json.gz"


def test_groups_hold_all_time_of_the_operators_that_have_shapes():
    kernels = profilers.read_report(SAMPLE).kernels
    table = operators_by_shape(kernels)
    known = kernels["input_shapes"].notna() & kernels["operator"].notna()
    assert table["duration_s"].sum() == pytest.approx(kernels[known]["duration_s"].sum())
    assert table["kernels"].sum() == kernels[known]["count"].sum()
    assert not table.duplicated(["phase", "operator", "input_shapes"]).any()
    assert table["duration_s"].is_monotonic_decreasing
    assert (table["mean_s"] * table["kernels"]).sum() == pytest.approx(table["duration_s"].sum())


def test_groups_are_those_of_the_file_itself():
    """According to the file's own events: kernels whose external id is that of an operator."""
    with gzip.open(SAMPLE) as file:
        events = json.load(file)["traceEvents"]
    shapes = {
        event["args"]["External id"]: json.dumps(event["args"]["Input Dims"], separators=(",", ":"))
        for event in events
        if event.get("cat") == "cpu_op" and event["name"] == "aten::mm"
    }
    theirs: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "kernel" and event["args"].get("External id") in shapes:
            theirs[shapes[event["args"]["External id"]]] += 1
    table = operators_by_shape(profilers.read_report(SAMPLE).kernels)
    ours = table[table["operator"] == "aten::mm"].set_index("input_shapes")["kernels"].to_dict()
    assert theirs and ours == theirs


def test_a_report_without_shapes_is_refused_with_what_records_them():
    kernels = profilers.read_report("app/samples/rtx5090_gemv_ncu.csv").kernels
    with pytest.raises(ReportError, match="record_shapes=True"):
        operators_by_shape(kernels)


def test_the_command_prints_them():
    (document,) = json.loads(run("import", SAMPLE, "--by-shape", "--json"))
    assert document["by_shape"][0]["duration_s"] >= document["by_shape"][1]["duration_s"]
