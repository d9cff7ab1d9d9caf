"""Groups left out of the fit, and runs of one's own beside it."""

from dataclasses import replace

import numpy as np

from app.engine_fit.hierarchy import fit
from app.engine_fit.splits import _folds, error_figures, left_out, with_own_runs
from tests.app.engine_fit.synthetic_engine import ROWS, Synthetic, synthetic


def test_what_shares_a_label_is_left_out_together_and_everything_once():
    targets = synthetic().targets
    for by in ("configuration", "model", "system"):
        masks = list(_folds(targets, by))
        assert np.sum(masks, axis=0).tolist() == [1] * len(targets)
        for mask in masks:
            out = {t.facts[by] for t, chosen in zip(targets, mask, strict=True) if chosen}
            kept = {t.facts[by] for t, chosen in zip(targets, mask, strict=True) if not chosen}
            assert not out & kept


def test_a_device_left_out_is_priced_with_the_engine():
    """The slow device is 25 % off without measurements of it, and close with them."""
    fitted = fit(synthetic(slow=["h200"], serving=False))
    unseen = left_out([fitted], "system")
    slow = np.array([t.facts["system"] == "h200" for t in unseen.targets])
    assert np.median(unseen.logs[slow]) < -0.2
    configurations = left_out([fitted], "configuration")
    assert np.abs(configurations.logs[slow]).max() < 0.12


def test_what_all_runs_of_a_model_miss_together_their_neighbours_correct():
    fitted = fit(synthetic(scale=1.3))
    held_out = left_out([fitted], "configuration")
    assert np.median(np.abs(held_out.logs)) < 0.06


def test_own_runs_help_a_model_that_nobody_measured():
    """One of the two models takes 1.5 times as long as predicted."""
    targets = [
        replace(t, row=t.row + ROWS * again, run=f"{t.run}|{again}")
        if t.facts["model"] == "7b"
        else replace(
            t,
            row=t.row + ROWS * again,
            run=f"{t.run}|{again}",
            measured_s=t.measured_s * 1.5,
        )
        for again in (0, 1)
        for t in synthetic().targets
    ]
    fitted = fit(Synthetic(targets))
    errors = [
        error_figures(with_own_runs([fitted], count).of_metric("tpot_s"))["median"]
        for count in (0, 3)
    ]
    assert errors[1] < errors[0]
