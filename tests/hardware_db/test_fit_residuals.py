"""The program that fits residuals of isolated kernels recovers a device's synthetic deviation from
its constants, on held-out shapes, and finds none where there is none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.residual import Residual, Shapes
from genz_core.latency.residual_grid import Grid
from hardware_db.fit import other_devices, residuals
from hardware_db.profiles import FOLDER, measured_profiles
from hardware_db.profiles.trees import MeasuredTrees, _trees
from tests.hardware_db.measured_tables import measured

pytest.importorskip("lightgbm")
pytestmark = pytest.mark.usefixtures("package")

DEVICE, SWITCHED = "mi308x", "h20-96gb"
BF16, REDUCE = ("gemm", "bf16"), ("collective", "nccl.all_reduce")


@pytest.fixture
def fitted(public, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Fit the residuals of a class to a table; returns errors by slug, and the shipped ones."""
    folder = tmp_path / "profiles"
    (folder / "residuals").mkdir(parents=True)
    errors = folder / "operator_validation.csv"
    errors.write_bytes((FOLDER / "operator_validation.csv").read_bytes())
    for module, name, place in (
        (residuals, "FOLDER", folder), (residuals, "FILE", errors),
        (residuals, "TREES", folder / "residuals"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, place)
    monkeypatch.setattr("hardware_db.profiles.trees.FOLDER", folder / "residuals")

    def fit(operator: str, table: pd.DataFrame) -> pd.DataFrame:
        _trees.cache_clear()
        asked = ["--tables", str(public(**{operator: table})), "--classes", operator]
        assert residuals.main(asked) == 0
        found = pd.read_csv(errors)
        return found[(found["split"] == residuals.SPLIT) & (found["operator"] == operator)]

    yield fit
    _trees.cache_clear()


def constants(device: str, key: tuple[str, str]):
    return next(p for p in measured_profiles() if p.name == device).parameters[key]


def priced(device: str, key: tuple[str, str], **sizes: np.ndarray) -> np.ndarray:
    ones = np.ones_like(next(iter(sizes.values())))
    points = OperatorPoints(*key, sizes, ones, warm_cache=False)
    return price_s(points, other_devices.system_of(device), constants(device, key))


def drawn_products(count: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "m": np.round(2.0 ** random.uniform(0, 14, count)),
        "n": 128.0 * np.round(2.0 ** random.uniform(1, 7, count)),
        "k": 128.0 * np.round(2.0 ** random.uniform(1, 7, count)),
    }


def slow_when_wide(sizes: dict[str, np.ndarray]) -> np.ndarray:
    """The device's deviation from its constants: 1.5 times the time from 2,048 columns on."""
    return np.where(sizes["n"] >= 2048, 1.5, 1.0)


def alone(kind: str, sizes: dict[str, np.ndarray]) -> Shapes:
    return Shapes(kind, sizes, float(other_devices.system_of(DEVICE).compute_units))


def test_trees_find_what_a_device_does_beside_its_constants(fitted) -> None:
    sizes = drawn_products()
    time = priced(DEVICE, BF16, **sizes) * slow_when_wide(sizes)
    [row] = fitted("gemm", measured("aiter", DEVICE, *BF16, time, **sizes)).to_dict("records")
    assert row["system"] == DEVICE and row["fmt"] == "bf16"
    assert row["mape"] < 0.03  # the constants alone are off by a third for half of them
    shipped = MeasuredTrees(DEVICE)(*BF16)
    assert isinstance(shipped, Residual)
    fresh = drawn_products(seed=1)
    equation = priced(DEVICE, BF16, **fresh)
    ratio = shipped.corrected_s(equation, alone("gemm", fresh)) / equation
    assert np.median(ratio[fresh["n"] > 2500]) == pytest.approx(1.5, rel=0.03)
    assert np.median(ratio[fresh["n"] < 1500]) == pytest.approx(1.0, rel=0.03)


def test_noise_moves_no_time_far_and_leaves_the_error_as_it_was(fitted) -> None:
    sizes = drawn_products()
    noise = np.exp(np.random.default_rng(2).normal(0.0, 0.3, len(sizes["m"])))
    time = priced(DEVICE, BF16, **sizes) * np.maximum(noise, 0.9)
    table = measured("aiter", DEVICE, *BF16, time, **sizes)
    [row] = fitted("gemm", table).to_dict("records")
    assert 0.1 < row["mape"] < 0.3
    shipped = MeasuredTrees(DEVICE)(*BF16)
    assert isinstance(shipped, Residual)  # the noise is above one on average, which trees may learn
    equation = priced(DEVICE, BF16, **sizes)
    ratio = shipped.corrected_s(equation, alone("gemm", sizes)) / equation
    assert np.ptp(np.log(ratio)) < 0.3


def test_products_on_a_grid_ship_as_a_table_of_their_times(fitted) -> None:
    m, n = (axis.ravel() for axis in np.meshgrid(2.0 ** np.arange(14), 512.0 * np.arange(1, 17)))
    sizes = {"m": m, "n": n, "k": np.full_like(m, 4096.0)}
    time = priced(DEVICE, BF16, **sizes) * slow_when_wide(sizes)
    fitted("gemm", measured("aiter", DEVICE, *BF16, time, **sizes))
    shipped = MeasuredTrees(DEVICE)(*BF16)
    assert isinstance(shipped, Grid)
    equation = priced(DEVICE, BF16, **sizes)
    found = shipped.corrected_s(equation, alone("gemm", sizes))
    assert np.median(np.abs(found / time - 1.0)) < 0.05


def test_messages_between_two_that_were_measured_lie_between_their_times(fitted) -> None:
    size = 2.0 ** np.arange(10, 31, 0.5)
    sizes = {"bytes": size, "group": np.full_like(size, 8.0)}
    time = priced(SWITCHED, REDUCE, **sizes, group_per_node=sizes["group"])
    time = time * np.where(size >= 2**20, 1.4, 1.0)
    table = measured("frontier", SWITCHED, *REDUCE, time, **sizes).assign(group_per_node=8)
    fitted("collective", table)
    shipped = MeasuredTrees(SWITCHED)(*REDUCE)
    assert isinstance(shipped, Grid)
    assert shipped.axes["group"].tolist() == [8.0]
    assert np.all(np.diff(shipped.ln_s, axis=0) >= 0)


def test_what_ships_of_other_classes_is_kept(fitted, tmp_path: Path) -> None:
    kept = tmp_path / "profiles" / "residuals" / f"{DEVICE}.npz"
    np.savez_compressed(kept, **{"moe/bf16/value": np.ones(3), "gemm/fp8/value": np.ones(2)})
    sizes = drawn_products()
    time = priced(DEVICE, BF16, **sizes) * slow_when_wide(sizes)
    fitted("gemm", measured("aiter", DEVICE, *BF16, time, **sizes))
    with np.load(kept) as again:
        names = {name.rpartition("/")[0] for name in again.files}
    assert names == {"moe/bf16", "gemm/bf16"}


def test_a_table_without_a_series_that_has_constants_writes_nothing(fitted, capsys) -> None:
    sizes = drawn_products(60)
    table = measured("aiter", DEVICE, "gemm", "int4", np.full(60, 1e-5), **sizes)
    with pytest.raises(SystemExit, match="2"):
        fitted("gemm", table)
    assert "no series of gemm has constants that ship" in capsys.readouterr().err
