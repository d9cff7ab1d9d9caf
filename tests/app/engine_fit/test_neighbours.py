"""What measured runs teach: kernels, their likelihood, and the runs that teach nothing."""

from dataclasses import replace

import numpy as np
import pytest

from app.engine_fit.neighbours import Latents, _Block, by_model, fit_kernels, latents
from genz_core.engine_constants import FIELDS
from genz_core.measured_runs import SIZES
from tests.app.engine_fit.synthetic_engine import BATCH, MODELS, ROWS, SYSTEMS, Synthetic, synthetic


def taught(steps):
    """Rows from which these steps are learnt, without a wait."""
    return Latents(steps, np.zeros_like(steps), {"tpot_s": steps, "ttft_s": steps})


def test_a_kernel_learns_what_runs_share_and_how_noisy_they_are():
    data = synthetic()
    generator = np.random.default_rng(0)
    of_model = {"7b": 0.15, "70b": -0.15}
    steps = np.array([of_model[t.facts["model"]] for t in data.targets if t.metric == "tpot_s"])
    quiet, noisy = (
        fit_kernels([(data, taught(steps + generator.normal(0, sigma, steps.size)))])["steps"]
        for sigma in (0.01, 0.05)
    )
    assert quiet.noise < 0.6 * noisy.noise
    assert quiet.constant["model"] > quiet.constant["release"]


def test_what_runs_teach_is_the_same_whatever_the_users_and_the_answer():
    """Steps that slow down with users add noise: throughput must not fall with users."""
    data = synthetic()
    users = np.array([float(t.facts["batch"]) for t in data.targets if t.metric == "tpot_s"])
    for kernel in fit_kernels([(data, taught(0.1 * np.log(users)))]).values():
        assert kernel.lengths[SIZES.index("concurrency")] == np.inf
        assert kernel.lengths[SIZES.index("osl")] == np.inf
    assert fit_kernels([(data, taught(0.1 * np.log(users)))])["steps"].noise > 0.03


def test_the_slopes_of_a_likelihood_are_its_differences():
    data, generator = synthetic(), np.random.default_rng(0)
    learned = taught(generator.normal(0.0, 0.2, ROWS))
    _, runs, _ = next(by_model(data, learned))
    block, at = _Block.of(runs, "steps"), generator.uniform(-2.5, 1.0, 19)
    _, slopes = block.unlikely(np.exp(at))
    for number, nudge in enumerate(1e-5 * np.eye(19)):
        ends = [block.unlikely(np.exp(at + sign * nudge))[0] for sign in (1.0, -1.0)]
        assert slopes[number] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-5)


def test_the_served_runs_of_a_model_stand_together_and_batches_are_none():
    data = synthetic()
    blocks = list(by_model(data, taught(np.arange(float(ROWS)))))
    assert [len(runs.names) for _, runs, _ in blocks] == [len(SYSTEMS) * len(BATCH)] * len(MODELS)
    _, runs, rows = blocks[1]
    assert runs.latents["steps"].tolist() == [float(row) for row in rows]
    assert not list(by_model(synthetic(serving=False), taught(np.zeros(ROWS))))


def test_a_run_teaches_what_makes_its_figures_those_measured():
    """Steps take 1.2 times and first tokens 1.5 times as long as physics predicts."""
    data = synthetic()
    times = {"tpot_s": 1.2, "ttft_s": 1.5}
    slower = [replace(t, measured_s=t.measured_s * times[t.metric]) for t in data.targets]
    slow, none = Synthetic(slower), np.zeros(len(FIELDS))
    found = latents(slow, none, slow.logs(none))
    physics = slow.logs(none)
    left = {name: -physics[[t.metric == name for t in slower]] for name in times}
    assert found.steps == pytest.approx(left["tpot_s"], abs=1e-6)
    assert found.wait == pytest.approx(left["ttft_s"] - left["tpot_s"], abs=1e-6)


def test_a_run_far_from_physics_teaches_nothing():
    targets = [replace(t, measured_s=t.measured_s * 3.0) for t in synthetic().targets]
    far, none = Synthetic(targets), np.zeros(len(FIELDS))
    assert np.all(np.isnan(latents(far, none, far.logs(none)).steps))
