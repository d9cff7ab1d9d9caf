"""The programs that write profiles recover the constants of a synthetic device."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import hardware_db
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.parameters import GemmParameters, Parameters, PointwiseParameters
from hardware_db.fit import __main__ as fit_all
from hardware_db.fit import few_kernels, held_out, other_devices, public_tables
from hardware_db.profile_schema import read
from hardware_db.profiles import FOLDER
from tests.hardware_db.measured_tables import measured, products, seconds

ROWS, COLUMNS = 2.0 ** np.arange(4, 15), 1024.0 * np.arange(1, 17)
TRUTH = {
    "l40s": PointwiseParameters(launch_s=3e-6, memory_efficiency=0.7, cache_share=0.3),
    "h100_sxm": PointwiseParameters(launch_s=2e-6, memory_efficiency=0.8, cache_share=0.2),
    "h200_sxm": PointwiseParameters(launch_s=2e-6, memory_efficiency=0.75, cache_share=0.2),
}


@pytest.fixture
def quantised(package):
    """Quantised matrices of three devices, with exactly the times of their constants."""
    m, k = (axis.ravel() for axis in np.meshgrid(ROWS, COLUMNS))
    for device, truth in TRUTH.items():
        time = seconds(device, "pointwise", truth, bytes=3.0 * m * k)
        rows = {"m": m, "k": k, "latency": time * 1e3}
        package.write(device, "quantize/vllm/1.0/scale_matrix_perf", rows)


def near(parameters: Parameters, truth: Parameters, *names: str) -> None:
    found = {name: getattr(parameters, name) for name in names}
    assert found == pytest.approx({name: getattr(truth, name) for name in names}, rel=0.03)


@pytest.mark.usefixtures("quantised")
def test_the_fit_writes_profiles_errors_and_quantiles(tmp_path: Path) -> None:
    out = tmp_path / "profiles"
    asked = ["--output", str(out), "--date", "2026-01-02", "--classes", "pointwise"]
    assert fit_all.main(asked) == 0
    for device, truth in TRUTH.items():
        profile = read(out / f"{device}.yaml", "measured")
        near(profile.parameters["pointwise", "default"], truth, "launch_s", "memory_efficiency")
        fit = profile.fits["pointwise", "default"]
        assert fit.tier == "measured" and fit.date == "2026-01-02" and fit.held_out_mape < 0.01
        assert fit.points + fit.held_out_points == len(ROWS) * len(COLUMNS)
    errors = pd.read_csv(out / "operator_validation.csv")
    assert set(errors["data"]) == {"aiconfigurator-core 0.12.0"}
    by_split = errors.groupby("split")["mape"].max()
    assert by_split["held-out shapes"] < 0.01 < by_split["roofline"]
    assert {"sibling", "unseen family", "+ 20 points"} <= set(by_split.index)
    residuals = yaml.safe_load((out / "residuals.yaml").read_text())
    own = residuals["classes"]["pointwise"]["measured"]
    assert own["series"] == 3 and abs(own["quantiles"][0.5]) < 0.01
    assert "pointwise" in (out / "README.md").read_text()


@pytest.mark.usefixtures("quantised")
def test_held_out_points_are_even_in_the_ranks_of_latency(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(held_out, "FILE", tmp_path / "points.csv")
    held_out.main()
    with held_out.FILE.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert tuple(rows[0]) == held_out.COLUMNS
    of_device = [row for row in rows if row["system"] == "h100-sxm5-80gb"]
    assert len(of_device) == held_out.PER_SERIES and len(rows) == 3 * held_out.PER_SERIES
    times = [float(row["measured_s"]) for row in of_device]
    assert times == sorted(times) and times[-1] > 10 * times[0]
    largest = of_device[-1]  # small ones come from a warm cache, faster than the memory
    assert float(largest["roofline_s"]) < float(largest["predicted_s"])


# ------------------------------------------------------------------------------- other benchmarks


def test_of_two_sources_of_a_series_the_first_in_order_counts(public) -> None:
    slow, fast = GemmParameters(launch_s=9e-6), GemmParameters(launch_s=3e-6)
    both = [products("pipeweave", "mi300x", slow), products("aiter", "mi300x", fast)]
    folder = public(gemm=pd.concat(both))
    [series] = public_tables.read_folder(folder, ["mi300x"])
    assert series.data_set == public_tables.SOURCES["aiter"].name and not series.warm_cache
    assert len(series.table) == 140 and series.table["shape"].nunique() == 10
    assert public_tables.read_folder(folder, ["h20-96gb"]) == []


def test_series_that_are_small_or_hold_gaps_or_stand_twice_are_left_out(public) -> None:
    many = products("frontier", "a800-sxm4-80gb", GemmParameters())
    few = products("aiter", "mi300x", GemmParameters())
    one_shape = few[few["n"] == 512].pipe(lambda rows: pd.concat([rows] * 3))
    table = pd.concat([
        many, few.head(23), one_shape.assign(fmt="fp8"), few.assign(fmt="mxfp8"),
        few.assign(source="hearsay", fmt="int8"), few.assign(fmt="mxfp4_mxfp4"),
    ])  # fmt: skip
    found = public_tables.read_folder(public(gemm=table), ["mi300x", "a800-sxm4-80gb"])
    assert [(series.device, series.fmt) for series in found] == [("mi300x", "nvfp4")]


def test_collectives_count_behind_switches_and_a_step_of_one_token_is_decode(public) -> None:
    size = 2.0 ** np.arange(10, 34)
    ring = measured("frontier", "h20-96gb", "collective", "nccl.all_reduce", size, bytes=size)
    ring = ring.assign(group=8, group_per_node=8)
    over_pcie, across = ring.assign(device="rtx-4090"), ring.assign(group_per_node=4, fmt="other")
    one = measured("frontier", "h20-96gb", "prefill_attention", "bf16/bf16", size, bytes=size)
    tokens = pd.concat([one.assign(new_tokens=1), one.assign(new_tokens=128, fmt="fp8/fp8")])
    folder = public(collective=pd.concat([ring, over_pcie, across]), attention=tokens)
    found = public_tables.read_folder(folder, ["h20-96gb", "rtx-4090"])
    keys = [(series.operator, series.device, series.fmt) for series in found]
    assert keys == [
        ("prefill_attention", "h20-96gb", "fp8/fp8"),
        ("collective", "h20-96gb", "nccl.all_reduce"),
    ]
    assert "group_per_node" not in found[1].table


def copied_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The profiles' folder as a copy, to be written to."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    for path in FOLDER.iterdir():
        if path.is_file() and path.suffix in (".csv", ".yaml", ".md"):
            (folder / path.name).write_bytes(path.read_bytes())
    for module in (other_devices, few_kernels):
        monkeypatch.setattr(module, "FOLDER", folder)
    monkeypatch.setattr(other_devices, "FILE", folder / "operator_validation.csv")
    monkeypatch.setattr(held_out, "FILE", folder / "held_out_points.csv")
    return folder


@pytest.mark.usefixtures("quantised")
def test_constants_of_another_device_are_kept_where_they_are_better(
    public, tmp_path, monkeypatch, capsys
) -> None:
    """An MI355X whose products have twenty times the launch time of related devices; and a device
    whose products are timed by its family's constants, so that nothing can be improved.
    """
    folder = copied_profiles(tmp_path, monkeypatch)
    monkeypatch.setattr(other_devices.tables, "DEVICES", tuple(TRUTH))
    strange = GemmParameters(launch_s=60e-6, compute_efficiency=0.4)
    tables = public(gemm=products("aiter", "mi355x", strange))
    assert other_devices.main(["--tables", str(tables), "--date", "2026-01-02"]) == 0
    profile = read(folder / "mi355x.yaml", "measured")
    near(profile.parameters["gemm", "bf16"], strange, "launch_s", "compute_efficiency")
    errors = pd.read_csv(folder / "operator_validation.csv")
    ours = errors[errors["data"] == public_tables.SOURCES["aiter"].name].set_index("split")["mape"]
    assert len(ours) == 4 and ours["held-out shapes"] < 0.01 < ours["roofline"]
    drawn = pd.read_csv(folder / "held_out_points.csv")
    assert set(drawn.loc[drawn["data"].str.startswith("ROCm"), "system"]) == {"mi355x"}
    residuals = yaml.safe_load((folder / "residuals.yaml").read_text())
    assert residuals["data_sets"][-1] == public_tables.SOURCES["aiter"].name
    assert "not kept" not in capsys.readouterr().out


@pytest.mark.usefixtures("quantised")
def test_thin_products_leave_the_arithmetic_to_the_large_ones_that_were_published(
    public, tmp_path, monkeypatch
) -> None:
    folder = copied_profiles(tmp_path, monkeypatch)
    monkeypatch.setattr(other_devices.tables, "DEVICES", tuple(TRUTH))
    slow = GemmParameters(launch_s=3e-6, compute_efficiency=0.2)
    tables = public(gemm=products("aiter", "mi308x", slow).query("m <= 64"))
    assert other_devices.main(["--tables", str(tables), "--date", "2026-01-02"]) == 0
    fitted = read(folder / "mi308x.yaml", "measured").parameters["gemm", "bf16"]
    shares = (668.4 / 1307.4, 784.9 / 1307.4)
    assert fitted.compute_efficiency == pytest.approx(np.sqrt(np.prod(shares)), rel=1e-4)


def test_a_device_with_fewer_units_than_its_kin_has_their_share_of_the_peak() -> None:
    whole, part = (other_devices.system_of(name) for name in ("mi300x", "mi308x"))
    assert part.compute_units == 80 and part.memory_bytes_per_s == whole.memory_bytes_per_s
    assert part.peak_flops_per_s["bf16"] == pytest.approx(whole.peak_flops_per_s["bf16"] * 80 / 304)


def test_a_handful_of_kernels_moves_typical_constants_toward_them(tmp_path, monkeypatch) -> None:
    folder = copied_profiles(tmp_path, monkeypatch)
    series = few_kernels.FewKernels("tpu-v7", "pointwise", "default", ("bytes",))
    monkeypatch.setattr(few_kernels, "SERIES", (series,))
    core = few_kernels.measured_system("tpu-v7")
    whole = hardware_db.facts("tpu-v7").system()
    assert core.memory_bytes_per_s == whole.memory_bytes_per_s / 2 and core.compute_units == 1
    assert few_kernels.measured_system("h100-sxm5-80gb").slug == "h100-sxm5-80gb"
    size = np.array([1e6, 1e7, 1e8, 1e9])
    truth = PointwiseParameters(launch_s=4e-6, memory_efficiency=0.9)
    points = OperatorPoints("pointwise", "default", {"bytes": size}, np.ones(4))
    time = price_s(points, core, truth)
    rows = pd.DataFrame({"device": "tpu-v7", "fmt": "default", "bytes": size, "latency_s": time})
    rows = pd.concat([rows, replace_device(rows)])
    rows.to_csv(tmp_path / "pointwise.csv.gz", index=False)
    few_kernels.main(["--tables", str(tmp_path), "--date", "2026-01-02"])
    profile = read(folder / "tpu-v7.yaml", "measured")
    near(profile.parameters["pointwise", "default"], truth, "memory_efficiency")
    fit = profile.fits["pointwise", "default"]
    assert (fit.points, fit.held_out_points, fit.date) == (4, 4, "2026-01-02")


def replace_device(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows for another device, ten times as slow, which must not count."""
    return rows.assign(device="tpu-v6e", latency_s=10 * rows["latency_s"])


def test_the_page_of_a_fit_needs_no_draw_beyond_the_points() -> None:
    table = pd.DataFrame({"shape": [1, 2], "bytes": [1e6, 2e6], "latency_s": [1e-5, 2e-5]})
    series = public_tables.MeasuredSeries("mi300x", "pointwise", "default", table, "x")
    sample = other_devices.split(series, hardware_db.facts("mi300x").system())
    nothing = replace(sample, test=sample.test.head(0))
    assert list(held_out.drawn(nothing, PointwiseParameters())) == []
