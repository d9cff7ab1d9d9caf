"""The fitting tool: its input, its splits, and that known constants are recovered."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from genz_core.latency.measured_operators import bound_s, price_s
from genz_core.latency.parameters import (
    CLASSES,
    CollectiveParameters,
    GemmParameters,
    Parameters,
    describe,
)
from genz_core.systems import System
from hardware_db.fit import evaluation, regression, samples, tables
from hardware_db.fit.__main__ import _fit_class
from hardware_db.profile_schema import read
from hardware_db.profiles import FOLDER

SYSTEM = System(
    "a", "A", "nobody", "gpu", "f", {"bf16": 312e12}, 80e9, 2.039e12, 41.9e6,
    compute_units=108, clock_hz=1.41e9,
)  # fmt: skip


def synthetic(name, family, parameters, shapes=60, seed=0):
    """A sample in the tables' form, of products that follow the model exactly."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([512.0, 1024.0, 4096.0, 8192.0], (shapes, 2))
    table = pd.DataFrame(
        {
            "m": 2.0 ** rng.integers(0, 13, 20 * shapes),
            "n": np.repeat(weights[:, 0], 20),
            "k": np.repeat(weights[:, 1], 20),
            "shape": np.repeat(np.arange(shapes), 20),
            "latency_s": 1.0,
        }
    )
    series = tables.MeasuredSeries(name, "gemm", "bf16", table, "synthetic")
    table["latency_s"] = price_s(series.points(), SYSTEM, parameters)
    return samples.split(series, replace(SYSTEM, family=family, slug=name))


def test_no_shape_family_is_on_both_sides_and_the_split_is_the_same_every_time():
    first, again = (synthetic("a", "f", GemmParameters()) for _ in range(2))
    assert not set(first.train["shape"]) & set(first.test["shape"])
    assert len(set(first.test["shape"])) == 24
    pd.testing.assert_frame_equal(first.train, again.train)
    pd.testing.assert_frame_equal(first.test, again.test)


def test_points_that_beat_physics_are_dropped_and_counted():
    sample = synthetic("a", "f", GemmParameters())
    table = sample.series.table.copy()
    limit = bound_s(sample.series.points(table), SYSTEM)
    worst = np.argsort(limit)[-3:]
    table.loc[worst, "latency_s"] = 0.5 * limit[worst]
    series = tables.MeasuredSeries("a", "gemm", "bf16", table, "synthetic")
    assert samples.split(series, SYSTEM).impossible == 3


def test_constants_that_made_the_points_are_found_again():
    truth = GemmParameters(launch_s=5e-6, compute_efficiency=0.6, memory_efficiency=0.7)
    sample = synthetic("a", "f", truth)
    fitted = regression.fit_own(sample, [GemmParameters()]).parameters
    for name in ("launch_s", "compute_efficiency", "memory_efficiency"):
        assert getattr(fitted, name) == pytest.approx(getattr(truth, name), rel=0.03)


def test_every_family_has_the_same_say_however_many_devices_it_has():
    slow, fast = GemmParameters(launch_s=16e-6), GemmParameters(launch_s=1e-6)
    many = [synthetic(f"s{i}", "slow", slow, seed=i) for i in range(4)]
    single = [synthetic("f", "fast", fast)]
    crowded = regression.fit_typical([*many, *single], [GemmParameters()]).launch_s
    even = regression.fit_typical([*many[:1], *single], [GemmParameters()]).launch_s
    assert crowded == pytest.approx(even, rel=0.15)


def test_an_evaluation_of_exact_points_has_no_error_but_the_rooflines_and_the_strangers():
    near, far = GemmParameters(), GemmParameters(launch_s=8e-6, memory_efficiency=0.5)
    pool = [synthetic("a100_sxm", "f", near), synthetic("h100_sxm", "g", far, seed=1)]
    own = {"a100_sxm": near, "h100_sxm": far}
    table = evaluation.evaluate(evaluation.FormatGroup(pool, own), few=(20,))
    error = table.groupby("split")["mape"].mean()
    assert error["held-out shapes"] < 1e-9
    assert error["unseen family"] > error["+ 20 points"] > error["held-out shapes"]
    assert error["roofline"] > 0.2


def test_few_points_are_drawn_over_the_whole_range_of_latencies():
    table = pd.DataFrame({"latency_s": np.geomspace(1e-6, 1e-2, 1000)})
    chosen = evaluation.spread_over_latency(table, 20, draw=0)
    assert len(chosen) == 20
    fifths = np.digitize(np.log10(chosen["latency_s"]), [-5.2, -4.4, -3.6, -2.8])
    assert list(np.bincount(fifths)) == [4, 4, 4, 4, 4]


# ------------------------------------------------------------------------------- the real tables


@pytest.fixture(scope="module")
def installed():
    return pytest.importorskip("aiconfigurator_core")


@pytest.mark.parametrize("operator", sorted(set(CLASSES) - {"gemm", "moe"}))
def test_the_tables_give_points_that_the_models_can_price(installed, operator):
    series = tables.read("h100_sxm", operator)
    assert series
    for entry in series:
        points = entry.points(entry.table.head(50))
        assert np.all(points.measured_s > 0)
        kind = CLASSES[operator]
        parameters = kind(**{constant.name: constant.default for constant in describe(kind)})
        sample = samples.samples(operator, ["h100_sxm"])[0]
        ratio = price_s(points, sample.system, parameters) / points.measured_s
        assert 0.05 < np.median(ratio) < 20.0


@pytest.mark.slow
def test_fitting_again_gives_the_constants_that_ship(installed):
    """Within 5 %: base and bulk of a collective trade against each other, and other processors'
    arithmetic leads the search to other points of the same valley.
    """
    for _, entries in _fit_class("collective", "2026-11-21"):
        for name, of_format in entries.items():
            shipped = read(FOLDER / f"{name}.yaml", "measured").parameters
            for key, (parameters, _) in of_format.items():
                for constant in describe(type(parameters)):
                    again = getattr(parameters, constant.name)
                    assert again == pytest.approx(
                        getattr(shipped[key], constant.name), rel=0.05, abs=1e-12
                    ), (name, key, constant.name)


def test_a_group_that_nobody_measured_reaches_what_it_does_on_devices_of_the_family() -> None:
    """From four to eight devices the family gains a tenth: 0.7 becomes 0.77, instead of a
    default.
    """

    def series(device: str, family: str, most: int) -> Any:
        table = pd.DataFrame({"group": [2, most]})
        kept = SimpleNamespace(device=device, operator="collective", table=table)
        return SimpleNamespace(series=kept, family=family)

    pool = [series("whole", "one", 8), series("part", "one", 4), series("alone", "other", 4)]
    own: dict[str, Parameters] = {
        "whole": CollectiveParameters(efficiency_4=0.6, efficiency_8=0.66),
        "part": CollectiveParameters(efficiency_4=0.7, efficiency_8=0.4),
        "alone": CollectiveParameters(efficiency_4=0.5, efficiency_8=0.3),
    }
    filled = regression.with_kins_groups(pool, own)
    assert filled["part"].efficiency_8 == pytest.approx(0.77)
    assert filled["part"].efficiency_4 == 0.7
    assert (filled["whole"], filled["alone"]) == (own["whole"], own["alone"])
