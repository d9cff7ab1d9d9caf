"""Laws that hold for loads corrected by measured runs; none is faster than its bound."""

from __future__ import annotations

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism
from hardware_db.tables import table

USERS = np.exp2(np.arange(13.0))
RUNS = list({(r["engine"], r["model"], r["system"]): r for r in table("engines", "runs")}.values())


@pytest.mark.by_day(6)
@pytest.mark.parametrize("run", RUNS[::3], ids=lambda run: f"{run['engine']}-{run['id']}")
@pytest.mark.parametrize(("isl", "osl"), [(1024, 1024), (30000, 500)])
def test_throughput_does_not_fall_with_users_and_tpot_hardly(run: dict[str, str], isl, osl):
    model = model_registry.load(run["model"], weights=run["weights"])
    system, engine = hardware_db.load(run["system"]), hardware_db.load_engine(run["engine"])
    split = Parallelism(**{name: int(float(run[name])) for name in ("tp", "dp", "ep")})
    load = serve(
        model, system, Traffic(isl, osl, USERS, waves=10), split, engine,
        on_error="status",
    )  # fmt: skip
    assert np.all(load.output_tokens_per_s[1:] > 0.95 * load.output_tokens_per_s[:-1])
    brings = load.output_tokens_per_s[1:] / load.output_tokens_per_s[:-1]
    assert np.all(brings[1:] < brings[:-1] + 0.3), "a doubling brings much more than the one before"
    assert np.all(load.tpot_s[1:] > 0.9 * load.tpot_s[:-1])
    assert np.all(load.tpot_s >= load.bound_decode_step_s)
    assert np.all((load.correction.steps > 0.4) & (load.correction.steps < 2.5))
