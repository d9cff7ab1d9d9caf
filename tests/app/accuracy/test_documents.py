"""The documents on accuracy: what they print is what is computed, by hand where it can be."""

import csv
import re
from math import ceil, hypot
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from app.accuracy import document as validation_report
from app.accuracy import measured_points, shipped_errors, worked_example_document
from app.cli import cli
from hardware_db.profiles.validation import OPERATOR_SPLITS

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "how-a-number-is-made.md"
TILES = [
    (64, 32), (64, 64), (64, 256), (128, 32), (128, 64), (128, 128), (128, 256), (256, 128),
    (256, 256),
]  # fmt: skip
M, N, K = 1024, 28672, 4096


@pytest.fixture(scope="module")
def said() -> str:
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
    found = re.search(pattern, text, re.DOTALL)
    assert found, pattern
    return float(found.group(1).replace(",", ""))


def test_the_document_is_the_one_that_its_generator_writes(said):
    """If this fails after a fit: ridgeline validate --write-docs docs/accuracy.md."""

    def figures(text: str) -> list[float]:
        return [float(found) for found in re.findall(r"\d+\.\d+", text)]

    assert figures(said) == pytest.approx(figures(worked_example_document.document()), rel=1e-3)


def test_the_work_of_the_example_follows_from_its_shape(said):
    assert f"{2 * M * N * K:,}" in said
    assert f"{2 * (M * K + K * N + M * N):,}" in said


def test_the_bound_of_the_example_follows_from_the_datasheet(said, h100):
    peak = h100["peak_dense_tflops"]["bf16"]["value"] * 1e12
    bandwidth = h100["memory_gb_per_s"]["value"] * 1e9
    bound = number(said, r"bound = max = \*\*([\d.]+) µs")
    assert bound == pytest.approx(2 * M * N * K / peak * 1e6, abs=0.006)
    decode = number(said, r"GB/s = \*\*([\d.]+) µs\*\*, by memory")
    assert decode == pytest.approx(2 * (K + K * N + N) / bandwidth * 1e6, abs=0.006)


def test_the_expected_time_of_the_example_follows_from_its_equation(said, constants, h100):
    """The latency model's equation by hand, over the tiles that libraries ship."""
    peak = h100["peak_dense_tflops"]["bf16"]["value"] * 1e12
    bandwidth = h100["memory_gb_per_s"]["value"] * 1e9
    clock = number(said, r"At ([\d.]+) GHz") * 1e9
    units = number(said, r"busiest of (\d+) units")
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
    floor = number(said, r"CUDA graph: \*\*([\d.]+) µs") * 1e-6
    assert number(said, r"t_compute = \*\*([\d.]+) µs") == pytest.approx(compute * 1e6, rel=2e-3)
    assert number(said, r"= \*\*([\d.]+) µs\*\*\n- the two overlap") == pytest.approx(
        memory * 1e6, rel=2e-3
    )
    expected = number(said, r"estimate says \*\*([\d.]+) µs")
    assert expected == pytest.approx((floor + hypot(body, loop)) * 1e6, rel=2e-3)


def test_the_steps_of_the_example_are_the_sums_of_their_operators(said):
    prefill, decode = said.split("## 5")[1].split("Decode, the mean")
    for part in (prefill, decode):
        rows = re.findall(r"^\| \w+ \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", part, re.MULTILINE)
        assert len(rows) > 10
        for runs, one, whole in rows:
            assert int(runs) * float(one) / 1e3 == pytest.approx(float(whole), abs=1e-3)
    total = sum(float(row) for row in re.findall(r"\| ([\d.]+) \| [\d.]+ \| [^|]+ \|\n", prefill))
    assert number(prefill, r"Prefill, ([\d.]+) ms") == pytest.approx(total, abs=0.01)


def test_what_a_user_feels_follows_from_the_steps(said):
    prefill = number(said, r"TTFT = prefill ([\d.]+) ms")
    request = number(said, r"request on the host ([\d.]+) ms")
    ttft = number(said, r"request on the host [\d.]+ ms = \*\*([\d.]+) ms")
    tpot = number(said, r"TPOT = .*?\*\*([\d.]+) ms")
    e2e = number(said, r"E2E = .*?\*\*([\d.]+) ms")
    assert ttft == pytest.approx(prefill + request, abs=2e-3)
    assert e2e == pytest.approx(ttft + tpot * 127, rel=1e-4)


def test_the_accuracy_document_has_every_split_and_a_worst_list():
    records = measured_points.published()
    serving = [
        {**row, "metric": metric, "origin": "public_benchmark", "concurrency": "8"}
        for row in records
        for metric in measured_points.SERVING_METRICS
    ]
    document = validation_report.markdown(records, serving, "2026-01-31")
    assert "2026-01-31" in document
    for split in (*OPERATOR_SPLITS, *shipped_errors.SERVING_SPLITS):
        assert f"**{split}**" in document
    assert document.count("| error | predicted | measured | suspected | run | id |") == 3
    assert "nan" not in document


def test_the_committed_accuracy_document_names_its_date_and_data():
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert re.search(r"--write-docs docs/accuracy.md`, \d{4}-\d\d-\d\d", text)
    assert "published.csv" in text and "serving.csv" in text and "aiconfigurator" in text


def test_the_command_prints_operators_by_split():
    result = CliRunner().invoke(cli, ["validate", "operators", "--format", "csv"])
    rows = list(csv.DictReader(result.stdout.splitlines()))
    gemm = {row["split"]: float(row["mape %"]) for row in rows if row["operator"] == "gemm"}
    assert set(gemm) == set(OPERATOR_SPLITS)
    assert gemm["held-out shapes"] < gemm["unseen family"] < gemm["roofline"]


def test_the_command_prints_what_was_held_out_beside_the_rows():
    result = CliRunner().invoke(cli, ["validate", "published", "--worst", "3"])
    assert result.exit_code == 0
    for words in ("configurations held out", "one GPU left out", "suspected"):
        assert words in result.stdout


def test_an_unknown_column_is_refused_by_name(monkeypatch):
    result = CliRunner().invoke(cli, ["validate", "operators", "--by", "colour"])
    assert result.exit_code != 0 and "colour" in str(result.exception)
