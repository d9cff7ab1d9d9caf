"""One measured TPOT: the scale of the step that gives it, kept for one deployment, and dropped."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from ridgeline import serve

from app.calibration import from_one_run
from app.scenario.scenario import Resolved, Scenario, resolve
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import Settings, kept_scale, run
from genz_core.errors import InvalidValue
from genz_core.progress import Cancelled

CLOSED = OfferedLoad(concurrency=16, isl=256, osl=64, length_ratio=0.8)
OPEN = OfferedLoad(rate=8.0, isl=256, osl=64, length_ratio=0.8, requests=200)


@pytest.fixture
def resolved(own_data) -> Resolved:
    return resolve(Scenario(engine="vllm", tp=2))


@pytest.mark.parametrize("load", [CLOSED, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.3, 4.0])
def test_the_simulated_tpot_is_the_measured_one(resolved, load, factor):
    plain = run(resolved, Settings(load))
    measured = factor * float(np.nanmean(plain.simulation.tpot_s))
    fit = from_one_run.fit(resolved, Settings(load), measured)
    assert np.nanmean(fit.run.simulation.tpot_s) == pytest.approx(measured, rel=1e-3)
    over = fit.scale.scale / plain.step_scale
    assert (over > 1) == (factor > 1) or over == pytest.approx(1, rel=1e-3)


def test_in_a_closed_loop_requests_take_longer_as_their_steps_do(resolved):
    plain, scaled = (run(resolved, Settings(CLOSED, step_scale=x)) for x in (1.0, 2.0))
    ratio = scaled.simulation.e2e_s.mean() / plain.simulation.e2e_s.mean()
    assert ratio == pytest.approx(2.0, rel=0.05)


def test_a_kept_scale_is_dated_and_holds_for_its_deployment_alone(resolved):
    fit = from_one_run.fit(resolved, Settings(CLOSED), 0.02)
    from_one_run.keep(fit)
    later = run(resolved, Settings(OPEN))
    assert later.step_scale == fit.scale.scale == kept_scale(resolved).scale
    (note,) = (note for note in later.notes if note.startswith("steps x"))
    assert "20 ms" in note and "concurrency 16" in note and date.today().isoformat() in note
    other = replace(resolved, scenario=replace(resolved.scenario, tp=4))
    assert kept_scale(other) is None
    assert run(resolved, Settings(OPEN, step_scale=1.0)).step_scale == 1.0


def test_a_kept_scale_is_that_of_the_closed_form_as_well(resolved):
    def served():
        return serve(
            resolved.model, system=resolved.system, engine="vllm", tp=2, concurrency=16, isl=256,
            osl=64, length_ratio=0.8,
        )  # fmt: skip

    before = served()
    fit = from_one_run.fit(resolved, Settings(CLOSED), 3.0 * before.tpot_s)
    from_one_run.keep(fit)
    after = served()
    assert after.tpot_s == pytest.approx(3.0 * before.tpot_s, rel=0.1)
    assert fit.scale.sentence in str(after.rows[0]["message"])
    other = serve(resolved.model, system=resolved.system, engine="vllm", tp=4, concurrency=16)
    assert "steps x" not in other.rows[0]["message"]


def test_a_forgotten_scale_is_gone(resolved):
    before = run(resolved, Settings(CLOSED)).step_scale
    from_one_run.keep(from_one_run.fit(resolved, Settings(CLOSED), 0.02))
    assert from_one_run.forget(resolved) and not from_one_run.forget(resolved)
    assert run(resolved, Settings(CLOSED)).step_scale == before


def test_measured_figures_stand_beside_the_simulated_ones(resolved):
    fit = from_one_run.fit(resolved, Settings(CLOSED), 0.02)
    rows = from_one_run.beside(fit, {"tpot_mean_s": 0.02, "ttft_p99_s": 0.5, "unknown": 1.0})
    assert [row["figure"] for row in rows] == ["tpot_mean_s", "ttft_p99_s"]
    assert rows[0]["error"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("load", "measured_s", "words"),
    [
        (CLOSED, 10.0, "no scale of the step from 0.1 to 10"),
        (CLOSED, 1e-5, "no scale of the step from 0.1 to 10"),
        (CLOSED, -1.0, "a measured TPOT of -1"),
        (CLOSED, float("nan"), "a measured TPOT of nan"),
        (replace(CLOSED, osl=1, length_ratio=1.0), 0.02, "no request .* has a second token"),
    ],
)
def test_a_measurement_that_no_scale_gives_is_one_sentence(resolved, load, measured_s, words):
    with pytest.raises(InvalidValue, match=words):
        from_one_run.fit(resolved, Settings(load), measured_s)


def test_a_fit_can_be_cancelled(resolved):
    long = replace(CLOSED, requests=2000)
    with pytest.raises(Cancelled):
        from_one_run.fit(resolved, Settings(long), 0.02, cancelled=lambda: True)
