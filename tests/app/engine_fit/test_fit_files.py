"""The files of a fit."""

import csv

import pytest

from app.engine_fit.fit_files import write_factors, write_kernels, write_runs
from app.engine_fit.hierarchy import fit
from app.engine_fit.neighbours import fit_kernels
from tests.app.engine_fit.synthetic_engine import BATCH, MODELS, SYSTEMS, level, synthetic


def test_the_files_hold_what_was_fitted(tmp_path):
    fitted = fit(synthetic(slow=["h200"]))
    assert write_factors([fitted], "device", tmp_path) == len(SYSTEMS)
    runs = len(SYSTEMS) * len(MODELS) * len(BATCH)
    assert write_runs([fitted], tmp_path / "runs.csv") == runs
    kernels = fit_kernels([(fitted.data, fitted.learned)])
    write_kernels(kernels, tmp_path / "kernels.csv")
    assert write_factors([fitted], "recipe", tmp_path) == len(SYSTEMS) * len(MODELS)
    recipe = next(csv.DictReader((tmp_path / "recipes.csv").open()))
    assert [recipe[name] for name in ("parameters", "system", "weights")] == ["2", "b200", "fp8"]
    assert int(recipe["points"]) == 2 * len(BATCH)
    rows = list(csv.DictReader((tmp_path / "devices.csv").open()))
    assert {row["today"] for row in rows} == {row["points"] for row in rows}  # one era alone
    slow = next(row for row in rows if row["system"] == "h200")
    expected = level(fitted, "device", "h200", "memory_efficiency")
    assert float(slow["memory_efficiency"]) == pytest.approx(expected, abs=1e-4)
    run = next(csv.DictReader((tmp_path / "runs.csv").open()))
    at = next(n for n, t in enumerate(fitted.data.targets) if t.run == run["id"])
    assert float(run["tpot_s"]) == pytest.approx(-fitted.logs[at], abs=1e-5)
    terms = list(csv.DictReader((tmp_path / "kernels.csv").open()))
    noise = {row["latent"]: float(row["value"]) for row in terms if row["term"] == "noise"}
    assert noise == {name: pytest.approx(k.noise, rel=1e-3) for name, k in kernels.items()}
