"""The kernel roofline: rates from counters, the stated roofs, and omitted kernels."""

import dataclasses
from pathlib import Path

import pytest

import profilers
from profilers.operators import roofline

CSV = Path(__file__).parents[2] / "fixtures" / "reports" / "csv" / "ncu" / "kernel_0001"


def test_a_16_bit_gemv_does_one_flop_a_byte():
    """Each weight of two bytes is multiplied and added once: 2 FLOPs per 2 bytes."""
    report = profilers.read_report(CSV / "ncu.section_SpeedOfLight_RooflineChart.csv")
    (point,) = roofline.roofline(report).to_dict("records")
    assert point["operator_class"] == "gemv"
    assert point["flops_per_byte"] == pytest.approx(1.0, rel=0.01)
    # (2 x 79.06 + 1.97) FLOPs per cycle at 2.15 GHz, over the section's own 345.14 GB/s
    assert point["flops_per_s"] == pytest.approx((2 * 79.06 + 1.97) * 2.15e9)
    assert point["bytes_per_s"] == pytest.approx(345.14e9)
    assert point["time_s"] == 0.0


def test_rates_need_no_duration_even_where_the_report_says_it_is_nothing():
    report = profilers.read_report(CSV / "ncu.section_SpeedOfLight_RooflineChart.csv")
    (known,) = roofline.roofline(report).to_dict("records")
    instant = dataclasses.replace(report, kernels=report.kernels.assign(duration_s=0.0))
    (point,) = roofline.roofline(instant).to_dict("records")
    assert point["flops_per_s"] == known["flops_per_s"] > 0


def test_the_roofs_are_those_of_the_chip_at_the_clocks_of_the_run():
    """GB202: 170 units of 128 lanes; 512 bits of GDDR7 at 28 Gb/s."""
    report = profilers.read_report(CSV / "ncu.section_SpeedOfLight_RooflineChart.csv")
    stated = roofline.roofs(report)
    assert stated is not None
    assert stated.flops_per_s == pytest.approx(170 * 128 * 2 * 2.15e9)
    assert stated.bytes_per_s == pytest.approx(1792e9, rel=0.03)


def test_raw_counters_of_a_report_give_points_below_their_roofs(report_of):
    report = report_of("ncu/h800_torch_5_kernels.ncu-rep")
    stated, table = roofline.roofs(report), roofline.roofline(report)
    assert stated is not None and stated.bytes_per_s == pytest.approx(3.35e12, rel=0.02)
    (point,) = table.to_dict("records")  # four launches of one kernel; the fifth has no counters
    assert point["count"] == 4
    assert 0 < point["flops_per_s"] < stated.flops_per_s
    assert 0 < point["bytes_per_s"] < stated.bytes_per_s
    assert point["at_least"]  # its tensor pipe was busy for 0.6 % of the cycles


def test_a_report_without_counters_has_no_points_and_no_roofs(report_of):
    for name in ("ncu/a100_pcie_extrap.ncu-rep", "csv/ncu/kernel_0001/ncu.details.csv"):
        report = report_of(name)
        assert not len(roofline.roofline(report)) and roofline.roofs(report) is None


def test_a_report_of_a_timeline_has_no_counters(report_of):
    report = report_of("nsys/mock.sqlite")
    assert not len(roofline.roofline(report))


def test_a_report_of_counters_without_times_names_no_longest_kernel(report_of):
    report = report_of("csv/ncu/kernel_0001/ncu.section_SpeedOfLight_RooflineChart.csv")
    assert profilers.summarise(report)["top_kernel"] is None
