"""Rates of operators by shape equal those of other tools and stay below the roofs."""

import csv
from pathlib import Path

import numpy as np
import pytest

import hardware_db
import profilers
from profilers.operators.operator_rates import COLUMNS, operator_rates, share_of_roof

GOLDEN = Path(__file__).parents[2] / "fixtures" / "reports" / "golden"
SGLANG = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
H100 = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"


def test_products_have_the_rates_of_the_golden(report_of):
    rates = operator_rates(report_of(SGLANG))
    products = rates[rates["operator_class"] == "gemm"]
    with (GOLDEN / "sglang_prefilldecode_GEMM.csv").open(newline="") as file:
        golden = [row for row in csv.DictReader(file) if row["name"] == "aten::mm"]
    assert len(products) == len(golden) == 5
    for row, expected in zip(products.to_dict("records"), golden, strict=True):
        assert row["shape"] == " × ".join(expected[f"param: {axis}"] for axis in "MNK")
        assert row["flops"] == pytest.approx(float(expected["GFLOPS_first"]) * 1e9)
        assert row["count"] == int(expected["name_count"])
    assert products["flops_per_s"].iloc[0] == pytest.approx(456.9e12, rel=1e-3)


@pytest.mark.parametrize("name", [SGLANG, H100])
def test_products_take_the_time_that_the_table_of_products_says(name, report_of):
    rates = operator_rates(report_of(name))
    products = rates[rates["operator_class"] == "gemm"]
    expected = profilers.gemm_table(report_of(name))
    assert products["time_s"].sum() == pytest.approx(expected["time_s"].sum())
    assert rates["time_s"].sum() <= report_of(name).kernels["duration_s"].sum() * (1 + 1e-9)
    assert rates["time_s"].is_monotonic_decreasing


@pytest.mark.parametrize(("name", "system"), [(SGLANG, "mi300x"), (H100, "h100")])
def test_no_product_or_attention_is_faster_than_its_roof(name, system, report_of):
    device = hardware_db.load(system)
    rates = operator_rates(report_of(name))
    share = share_of_roof(rates, device.memory_bytes_per_s, device.peak_flops_per_s)
    heavy = rates["operator_class"].isin(["gemm", "attention"]) & (rates["mean_s"] > 20e-6)
    assert heavy.sum() >= 4
    assert ((share[heavy] > 0.1) & (share[heavy] < 1.0)).all()


def test_attention_counts_half_of_the_square_of_a_prompt(report_of):
    rates = operator_rates(report_of(SGLANG))
    (attention,) = rates[rates["operator_class"] == "attention"].to_dict("records")
    heads, width, tokens, prompts = 32, 128, 1024, 15
    pairs = tokens * (tokens + 1) / 2
    assert attention["flops"] == 4 * prompts * heads * width * pairs
    queries, cache = 2 * heads * width, 2 * 8 * width
    assert attention["bytes"] == 2 * prompts * tokens * (queries + cache)


def test_a_trace_without_shapes_has_no_rates(report_of):
    rates = operator_rates(report_of("nsys/mock.sqlite"))
    assert not len(rates) and list(rates) == list(COLUMNS)


def test_an_unknown_roof_gives_no_share(report_of):
    rates = operator_rates(report_of(SGLANG))
    assert np.isnan(share_of_roof(rates, None, {})).all()
