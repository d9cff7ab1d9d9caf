"""The accuracy pages print computed figures, checked by hand where possible."""

import re
from math import ceil, hypot

import pytest
import yaml

from app.accuracy import (
    document,
    measured_points,
    shipped_errors,
    summary_document,
    worked_example_document,
)
from hardware_db.profiles.validation import OPERATOR_SPLITS
from tests.app.pages import ROOT

DOCUMENT = ROOT / "docs" / "how-a-number-is-made.md"
TILES = [
    (64, 32), (64, 64), (64, 256), (128, 32), (128, 64), (128, 128), (128, 256), (256, 128),
    (256, 256),
]  # fmt: skip
M, N, K = 1024, 28672, 4096


@pytest.fixture(scope="module")
def example() -> str:
    """The committed text of the worked example."""
    return DOCUMENT.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def constants() -> dict[str, float]:
    profile = ROOT / "hardware_db" / "profiles" / "h100_sxm.yaml"
    document = yaml.safe_load(profile.read_text(encoding="utf-8"))
    return document["classes"]["gemm"]["bf16"]["parameters"]


@pytest.fixture(scope="module")
def h100() -> dict:
    source = ROOT / "hardware_db" / "systems" / "h100-sxm5-80gb.yaml"
    return yaml.safe_load(source.read_text(encoding="utf-8"))


def number(text: str, pattern: str) -> float:
    match = re.search(pattern, text, re.DOTALL)
    assert match, pattern
    return float(match.group(1).replace(",", ""))


def test_the_document_is_the_one_that_its_generator_writes(example):
    """If this fails after a fit: ridgeline validate --write-docs docs/accuracy.md."""

    def figures(text: str) -> list[float]:
        return [float(number) for number in re.findall(r"\d+\.\d+", text)]

    printed = figures(example)
    assert len(printed) > 100
    assert printed == pytest.approx(figures(worked_example_document.document()), rel=1e-3)


def test_the_work_of_the_example_follows_from_its_shape(example):
    assert f"{2 * M * N * K:,}" in example
    assert f"{2 * (M * K + K * N + M * N):,}" in example


def test_the_bound_of_the_example_follows_from_the_datasheet(example, h100):
    peak = h100["peak_dense_tflops"]["bf16"]["value"] * 1e12
    bandwidth = h100["memory_gb_per_s"]["value"] * 1e9
    bound = number(example, r"bound = max = \*\*([\d.]+) µs")
    highest = peak * h100["boost_factor"]["value"]
    assert bound == pytest.approx(2 * M * N * K / highest * 1e6, abs=0.006)
    decode = number(example, r"GB/s = \*\*([\d.]+) µs\*\*, by memory")
    assert decode == pytest.approx(2 * (K + K * N + N) / bandwidth * 1e6, abs=0.006)


def test_the_expected_time_of_the_example_follows_from_its_equation(example, constants, h100):
    """The latency model's equation by hand, over the tiles that libraries ship."""
    peak = h100["peak_dense_tflops"]["bf16"]["value"] * 1e12
    bandwidth = h100["memory_gb_per_s"]["value"] * 1e9
    clock = number(example, r"At ([\d.]+) GHz") * 1e9
    units = number(example, r"busiest of (\d+) units")
    per_output = 2 * K * units / (constants["compute_efficiency"] * peak)
    per_output += 2 / (constants["store_share"] * 64 * clock)
    outputs = min(
        max(ceil(M / rows) * ceil(N / columns) / units, 1) * rows * columns
        for rows, columns in TILES
    )
    compute = outputs * per_output
    memory = 2 * (M * K + K * N + M * N) / bandwidth / constants["memory_efficiency"]
    p = constants["overlap"]
    body = (compute**p + memory**p) ** (1 / p)
    loop = K * 2 / 128 * constants["k_step_s"]
    floor = number(example, r"CUDA graph: \*\*([\d.]+) µs") * 1e-6
    assert number(example, r"t_compute = \*\*([\d.]+) µs") == pytest.approx(compute * 1e6, rel=2e-3)
    assert number(example, r"= \*\*([\d.]+) µs\*\*\n- the two overlap") == pytest.approx(
        memory * 1e6, rel=2e-3
    )
    expected = number(example, r"estimate says \*\*([\d.]+) µs")
    assert expected == pytest.approx((floor + hypot(body, loop)) * 1e6, rel=2e-3)


def test_the_steps_of_the_example_are_the_sums_of_their_operators(example):
    prefill, decode = example.split("## 5")[1].split("Decode, the mean")
    for part in (prefill, decode):
        rows = re.findall(r"^\| \w+ \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", part, re.MULTILINE)
        assert len(rows) > 10
        for runs, run_us, all_ms in rows:
            assert int(runs) * float(run_us) / 1e3 == pytest.approx(float(all_ms), abs=1e-3)
    total = sum(float(row) for row in re.findall(r"\| ([\d.]+) \| [\d.]+ \| [^|]+ \|\n", prefill))
    assert number(prefill, r"Prefill, ([\d.]+) ms") == pytest.approx(total, abs=0.01)


def test_what_a_user_feels_follows_from_the_steps(example):
    ttft = number(example, r"TTFT = prefill = \*\*([\d.]+) ms")
    tpot = number(example, r"TPOT = .*?\*\*([\d.]+) ms")
    e2e = number(example, r"E2E = .*?\*\*([\d.]+) ms")
    assert e2e == pytest.approx(ttft + tpot * 127, rel=1e-4)


def test_the_accuracy_document_has_every_split_and_a_worst_list(published_records):
    serving = [
        {**row, "metric": metric, "origin": "public_benchmark", "concurrency": "8"}
        for row in published_records
        for metric in measured_points.SERVING_METRICS
    ]
    text = document.markdown(published_records, serving, "2026-01-31")
    assert "--write-docs docs/accuracy.md`, 2026-01-31." in text
    for split in (*OPERATOR_SPLITS, *shipped_errors.SERVING_SPLITS):
        assert f"**{split}**" in text
    heading = "| error | predicted | measured | suspected | run | id |\n"
    worst = [table.split("\n\n")[0].splitlines()[1:] for table in text.split(heading)[1:]]
    assert [len(rows) for rows in worst] == [20, 20, 20]
    assert "nan" not in text


@pytest.mark.slow
def test_the_short_page_says_what_the_fit_left_out():
    """Its figures are those of the tables that the fit wrote."""
    text = summary_document.document("2026-01-31")
    rows = shipped_errors.fit_errors(("tpot_s",))
    held = next(row for row in rows if row["split"] == "one GPU left out")
    lines = [x for x in text.splitlines() if x.startswith("| TPOT")]
    line = next(x for x in lines if "none on this GPU" in x)
    assert f"| {held['points']:d} | {held['median %']:g} | {held['mape %']:g} |" in line
    assert len(text.splitlines()) < 160
    assert "nan" not in text and "None" not in text


def test_the_committed_accuracy_document_has_the_points_that_ship():
    text = (ROOT / "docs" / "accuracy-tables.md").read_text(encoding="utf-8")
    assert re.search(r"--write-docs docs/accuracy.md`, \d{4}-\d\d-\d\d", text)
    published, serving = map(measured_points.measured_rows, ("published", "serving"))
    assert f"\n{len(published)} published points " in text
    assert f"\n{len(serving):,} closed-loop runs " in text
    assert shipped_errors.operator_series()[0]["data"] in text
