"""From one measured TPOT: the step scale that reproduces it, stored and deleted."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
import ridgeline

from app.calibration import from_one_run
from app.planning.search import search
from app.question.query import ask
from app.question.question import Question
from app.scenario.results import serve
from app.scenario.scenario import Resolved, resolve
from app.scenario.served_rows import kept_step_scale
from app.simulation.run import run
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue
from tests.app.planning.asking import asked as a_plan

CLOSED = {"concurrency": 16, "isl": 256, "osl": 64}
OPEN = {"rate": 8.0, "isl": 256, "osl": 64, "requests": 1000}
LLAMA = "meta-llama/Llama-3.1-8B"


@pytest.fixture
def asked(own_data):
    """The resolved question about a deployment."""

    def of(load, **changes) -> Resolved:
        return resolve(Question(**{"model": LLAMA, "engine": "vllm", "tp": 2, **load, **changes}))

    return of


@pytest.mark.by_day(2)
@pytest.mark.parametrize("load", [CLOSED, OPEN], ids=["closed", "open"])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.3, 4.0])
def test_the_simulated_tpot_is_the_measured_one(asked, load, factor):
    plain = run(asked(load))
    measured = factor * plain.simulation.summary()["tpot_mean_s"]
    fit = from_one_run.fit(asked(load), measured)
    assert fit.run.simulation.summary()["tpot_mean_s"] == pytest.approx(measured, rel=1e-3)
    over = fit.scale.scale / plain.step_scale
    assert (over > 1) == (factor > 1) or over == pytest.approx(1, rel=1e-3)


def test_in_a_closed_loop_requests_take_longer_as_their_steps_do(asked):
    plain, scaled = (run(asked(CLOSED, step_scale=x)) for x in (1.0, 2.0))
    ratio = scaled.simulation.e2e_s.mean() / plain.simulation.e2e_s.mean()
    assert ratio == pytest.approx(2.0, rel=0.05)


def test_a_kept_scale_is_dated_and_holds_for_every_split_of_its_deployment(asked):
    fit = from_one_run.fit(asked(CLOSED), 0.02)
    from_one_run.keep(fit)
    later = run(asked(OPEN))
    assert later.step_scale == fit.scale.scale == kept_step_scale(asked(OPEN)).scale
    (note,) = (note for note in later.notes if note.startswith("steps x"))
    assert "20 ms" in note and "16 users: 160 requests of 256/64 tokens" in note
    assert date.today().isoformat() in note
    assert kept_step_scale(asked(OPEN, tp=4)).scale == fit.scale.scale
    assert kept_step_scale(asked(OPEN, weights="fp8")) is None
    assert run(asked(OPEN, step_scale=1.0)).step_scale == 1.0


def test_a_kept_scale_is_that_of_the_closed_form_as_well(asked):
    question = {"model": LLAMA, "engine": "vllm", "tp": 2, **CLOSED}
    before = serve(ask("serve", question))
    fit = from_one_run.fit(asked(CLOSED), 3.0 * before.tpot_s)
    from_one_run.keep(fit)
    after = serve(ask("serve", question))
    assert after.tpot_s == pytest.approx(3.0 * before.tpot_s, rel=0.1)
    assert fit.scale.sentence in str(after.rows[0]["message"])
    assert fit.scale.sentence in serve(ask("serve", question | {"tp": 4})).rows[0]["message"]
    assert "steps x" not in serve(ask("serve", question | {"weights": "fp8"})).rows[0]["message"]


def test_several_splits_at_once_are_priced_as_each_alone(asked):
    question = {"model": LLAMA, "engine": "vllm", **CLOSED}
    from_one_run.keep(from_one_run.fit(asked(CLOSED), 0.03))
    together = ridgeline.sweep(**question, tp="2,4").rows
    for row in together:
        alone = serve(ask("serve", question | {"tp": int(row["tp"])}))
        assert row["tpot_s"] == pytest.approx(alone.tpot_s)


def test_a_plan_prices_every_split_with_the_kept_scale(asked):
    question = {"system": "h100", "engine": "vllm", **CLOSED}
    from_one_run.keep(from_one_run.fit(asked(CLOSED, system="h100-sxm5-80gb"), 0.03))
    columns = search(a_plan(LLAMA, **question, devices=(1, 2), simulate=False)).candidates.columns
    alone = columns["dp"] * columns["pp"] * columns["replicas"] == 1.0
    for tp in (1, 2):
        served = serve(ask("serve", {"model": LLAMA, **question, "tp": tp}))
        here = columns["tpot_s"][alone & (columns["tp"] == tp)]  # with several limits
        assert here[np.argmin(abs(here - served.tpot_s))] == pytest.approx(served.tpot_s)


def test_a_plan_names_the_kept_scale(asked):
    fit = from_one_run.fit(asked(CLOSED), 0.02)
    question = {"system": "h100", "engine": "vllm", "devices": 2, "simulate": False} | CLOSED
    from_one_run.keep(fit)
    notes = ridgeline.plan(LLAMA, **question).to_dict()["notes"]
    assert any(note.endswith(fit.scale.sentence) for note in notes)


def test_a_forgotten_scale_is_gone(asked):
    before = run(asked(CLOSED)).step_scale
    from_one_run.keep(from_one_run.fit(asked(CLOSED), 0.02))
    assert from_one_run.forget(asked(CLOSED)) and not from_one_run.forget(asked(CLOSED))
    assert run(asked(CLOSED)).step_scale == before


def test_measured_figures_stand_beside_the_simulated_ones(asked):
    fit = from_one_run.fit(asked(CLOSED), 0.02)
    rows = from_one_run.beside(fit, {"tpot_mean_s": 0.02, "ttft_p99_s": 0.5, "unknown": 1.0})
    assert [row["figure"] for row in rows] == ["tpot_mean_s", "ttft_p99_s"]
    assert rows[0]["error"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("load", "measured_s", "words"),
    [
        (CLOSED, 10.0, "no scale of the step from 0.1 to 10"),
        (CLOSED, 1e-5, "no scale of the step from 0.1 to 10"),
        (CLOSED, -1.0, "measured TPOT = -1"),
        (CLOSED, float("nan"), "measured TPOT = nan"),
        (CLOSED | {"osl": 1}, 0.02, "no request .* has a second token"),
        (CLOSED | {"prefill_workers": 1}, 0.02, "without a prefill pool"),
        (CLOSED | {"speculation": "eagle"}, 0.02, "calibrate without speculation"),
    ],
)
def test_a_measurement_that_no_scale_gives_is_one_sentence(asked, load, measured_s, words):
    with pytest.raises(InvalidValue, match=words):
        from_one_run.fit(asked(load), measured_s)


def test_a_fit_can_be_cancelled(asked):
    with pytest.raises(Cancelled):
        from_one_run.fit(asked(CLOSED, requests=2000), 0.02, cancelled=lambda: True)
