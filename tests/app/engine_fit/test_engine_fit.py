"""The fit of engines: two levels, neighbours, what is left out together, intervals, its files."""

import csv
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import hardware_db
from app.engine_fit import hierarchy
from app.engine_fit.hierarchy import Design, fit
from app.engine_fit.interval_tables import AS_GENERIC, OWN, coverage_table, interval_table
from app.engine_fit.neighbours import (
    Latents,
    _Block,
    by_model,
    fit_kernels,
    latents,
    run_facts,
    run_sizes,
)
from app.engine_fit.splits import (
    SPLITS,
    Residuals,
    _folds,
    error_figures,
    left_out,
    with_own_runs,
)
from app.engine_fit.targets import Target, _add_newest, load_measurements
from app.engine_fit.writing import write_factors, write_kernels, write_runs
from app.question.asking import Asked
from app.question.question import Question
from app.scenario.points_row import Point
from genz_core.deployment import tuned
from genz_core.engine import CONSTANTS, FIELDS, EngineProfile
from genz_core.engine_calibration import moved
from genz_core.measured_runs import LATENTS, SIZES
from hardware_db.intervals import CROWD, USUAL_NOVELTY

SYSTEMS = ("h100", "h200", "b200")
MODELS = ("7b", "70b")
BATCH = np.array([1.0, 4.0, 16.0, 64.0, 128.0])
ROWS = len(SYSTEMS) * len(MODELS) * len(BATCH)


PRIOR = EngineProfile(host_step_s=1e-3, host_request_s=4e-3)


@dataclass
class Synthetic:
    """Measured figures of an engine whose law is given: steps that stream 16 GB, and requests
    that wait for a step and 3 ms."""

    targets: list
    engine: str = "synthetic"
    prior: EngineProfile = PRIOR

    @property
    def rows(self):
        loads = [int(BATCH[at % len(BATCH)]) for at in range(1 + max(t.row for t in self.targets))]
        asked = Asked("estimate", Question(osl=128))
        return [Point(str(load), asked, {"concurrency": float(load)}) for load in loads]

    def logs(self, moves, wanted=None, under=None):
        engines = [
            moved(PRIOR, row) for row in np.broadcast_to(moves, (len(self.targets), len(FIELDS)))
        ]
        predicted = np.array(
            [
                self.predicted_s([target], engine)[0]
                * (self.learned(at, under(_named(target), [target.row], engine)) if under else 1.0)
                for at, (target, engine) in enumerate(zip(self.targets, engines, strict=True))
            ]
        )
        return np.log(predicted) - np.log([t.measured_s for t in self.targets])

    def learned(self, at, engine):
        """What a recipe of one row, or measured runs, make of a target."""
        target = self.targets[at]
        first, runs = target.metric == "ttft_s", engine.neighbours
        if runs is None:
            scales = engine.recipe
            return float(np.ravel(scales.ttft_scale if first else scales.tpot_scale)[0])
        facts, sizes = run_facts(self, at), np.array([run_sizes(self, target.row)])
        latents = LATENTS if first else LATENTS[:1]
        return float(np.exp(sum(runs.correction(one, facts, sizes).log[0] for one in latents)))

    def predicted_s(self, targets, engine, recipe=None):
        batch = np.array([float(t.facts["batch"]) for t in targets])
        ttft = np.array([t.metric == "ttft_s" for t in targets])
        step = 5e-3 / engine.memory_efficiency + 2e-5 * batch / engine.compute_efficiency
        waiting = 3e-3 * engine.host_request_s / PRIOR.host_request_s
        seconds = step + engine.host_step_s + ttft * waiting
        if recipe is None:
            return seconds
        return seconds * np.where(ttft, recipe.ttft_scale, recipe.tpot_scale)


def _named(target):
    """What a resolved question says of a target's model and engine."""
    model = SimpleNamespace(parameters=float(target.facts["parameters"]))
    return SimpleNamespace(model=model, engine=SimpleNamespace(version=""))


def synthetic(slow=(), scale=1.0, serving=True, era=""):
    """Figures of every system and model; the systems `slow` reach 70 % of the bandwidth.

    era: that the runs of 7b belong to; its steps take 4 ms more.
    """
    targets = []
    for system in SYSTEMS:
        for model in MODELS:
            for batch in BATCH:
                row = len({target.row for target in targets})
                step = 5e-3 / (0.7 if system in slow else 1.0) + 2e-5 * batch + 1e-3
                step += 4e-3 if era and model == "7b" else 0.0
                for metric in ("tpot_s", "ttft_s") if serving else ("decode",):
                    time = step + (3e-3 if metric == "ttft_s" else 0.0)
                    facts = {
                        "set": "serving" if serving else "published",
                        "model": model, "system": system, "engine": "synthetic", "tier": "measured",
                        "kernels": "",
                        "recipe": f"{len(model)}|{system}|fp8", "named": model,
                        "parameters": str(len(model)), "family": system,
                        "configuration": f"{model}|{system}|{batch}", "batch": str(batch),
                        "possible": "yes", "load": "high", "era": era if model == "7b" else "",
                        "release": "1.0", "output": "101",
                    }  # fmt: skip
                    run = f"{model}|{system}|{batch}"
                    targets.append(Target(row, metric, time * scale, facts, run))
    return Synthetic(targets)


def level(fitted, name, label, field):
    for at, (of, lab) in enumerate(zip(fitted.design.levels, fitted.design.labels, strict=True)):
        constant = fitted.design.constants[at]
        if (of, lab) == (name, label) and FIELDS[constant] == field:
            return float(np.exp(fitted.at[at]))
    raise LookupError(label)


def test_each_target_is_moved_by_engine_silicon_and_device_and_scaled_by_its_recipe():
    data = synthetic()
    design = Design.of_targets(data.targets)
    moves = design.moves(np.ones(design.widths.size))
    levels = [1 + 2 * bool(c.device) for c in CONSTANTS]
    np.testing.assert_array_equal(moves, np.tile(levels, (len(data.targets), 1)))
    assert set(design.scales(np.ones(design.widths.size))) == {1.0}


def test_rates_of_an_engine_whose_own_kernels_were_timed_stay_near_them():
    targets = synthetic().targets
    own = [replace(target, facts={**target.facts, "kernels": "own"}) for target in targets]
    plain, near = Design.of_targets(targets), Design.of_targets(own)
    boards = np.isin(plain.levels, ("silicon", "device"))
    rates = np.isin([FIELDS[at] for at in plain.constants], hierarchy._RATES) & boards
    np.testing.assert_allclose(near.widths[rates], 0.2 * plain.widths[rates])
    np.testing.assert_array_equal(near.widths[~rates], plain.widths[~rates])


def test_published_points_belong_to_devices_alone():
    design = Design.of_targets(synthetic(serving=False).targets)
    assert set(design.levels) == {"engine", "silicon", "device"}


def test_an_era_is_told_from_the_engine_of_today():
    fitted = fit(synthetic(serving=False, era="old"))
    host = level(fitted, "era", "old", "host_step_s"), level(fitted, "engine", "", "host_step_s")
    assert host[0] > 2.0 > 1.3 > host[1]
    assert np.median(np.abs(fitted.logs)) < 0.08


def test_one_slow_device_is_told_from_the_engine():
    fitted = fit(synthetic(slow=["h200"], serving=False))
    of_device, of_silicon = (
        level(fitted, name, "h200", "memory_efficiency") for name in ("device", "silicon")
    )
    assert of_device * of_silicon < 0.87
    assert of_silicon < of_device < 1.0  # most is taken for its silicon's, which siblings share
    assert level(fitted, "engine", "", "memory_efficiency") == pytest.approx(1.0, abs=0.05)
    assert level(fitted, "device", "b200", "memory_efficiency") == pytest.approx(1.0, abs=0.06)
    assert np.median(np.abs(fitted.logs)) < 0.03


def test_a_device_left_out_is_priced_with_the_engine():
    """The slow device is 25 % off when nothing is known of it, and close when it is."""
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


def taught(steps):
    """Rows that teach these steps and no wait."""
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
    """Steps that get slower with users teach noise: throughput must not fall with users."""
    data = synthetic()
    users = np.array([float(t.facts["batch"]) for t in data.targets if t.metric == "tpot_s"])
    for kernel in fit_kernels([(data, taught(0.1 * np.log(users)))]).values():
        assert kernel.lengths[SIZES.index("concurrency")] == np.inf
        assert kernel.lengths[SIZES.index("osl")] == np.inf
    assert fit_kernels([(data, taught(0.1 * np.log(users)))])["steps"].noise > 0.03


def releases(*runs):
    """Data of served runs, (model, release) each."""
    data = synthetic()
    data.targets = [
        Target(at, "tpot_s", 1.0, {"set": "serving", "named": model, "release": release})
        for at, (model, release) in enumerate(runs)
    ]
    return data


def test_the_newest_release_of_each_model_is_told_apart():
    data = releases(
        ("7b", "0.9.2"), ("7b", "0.10.0"), ("7b", "nightly-5b8c"), ("7b", ""),
        ("70b", "1.2.0rc6.post2"), ("70b", "1.2.0rc6.post3"), ("70b", "1.2.0rc6.post3"),
        ("400b", "0.9.2"), ("400b", "0.9.2"),
    )  # fmt: skip
    _add_newest(data)
    assert [target.facts["newest"] for target in data.targets] == [
        "", "7b", "", "", "", "70b", "70b", "", "",
    ]  # fmt: skip


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
    """Steps 1.2 times, first tokens 1.5 times as long as anything physics can say."""
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


def test_own_runs_help_a_model_that_nobody_measured():
    """One of the two models takes 1.5 times as long as anything said so far."""
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


def test_what_shares_a_label_is_left_out_together_and_everything_once():
    targets = synthetic().targets
    for by in ("configuration", "model", "system"):
        masks = list(_folds(targets, by))
        assert np.sum(masks, axis=0).tolist() == [1] * len(targets)
        for mask in masks:
            out = {t.facts[by] for t, chosen in zip(targets, mask, strict=True) if chosen}
            kept = {t.facts[by] for t, chosen in zip(targets, mask, strict=True) if not chosen}
            assert not out & kept


# ------------------------------------------------------------------------------- intervals


def spread_out(sigma, metric="tpot_s", count=2000, draw=None, novelty=None, users=None):
    """Residuals of a given spread, eight to a configuration, model and system.

    draw: of the residuals, [count]; normal ones where it is None.  novelty, users: of each.
    """
    rng = np.random.default_rng(0)
    targets = []
    for at in range(count):
        facts = {"engine": "e", "tier": "measured", "possible": "yes", "load": "high"}
        facts |= {"users": str(1 if users is None else users[at])}
        names = {name: f"{name}{at // 8}" for name in tuple(SPLITS.values())}
        targets.append(
            Target(
                at,
                metric,
                1.0,
                facts | names,
            )
        )
    drawn = rng.normal(0.0, sigma, count) if draw is None else draw
    far = np.full(count, 0.25) if novelty is None else novelty
    residuals = Residuals(targets, drawn, far, drawn)
    splits = tuple(SPLITS)
    return dict.fromkeys((*splits, OWN, AS_GENERIC), residuals)


@pytest.mark.parametrize("count", [64, 8000], ids=["few", "many"])
def test_an_interval_is_the_middle_of_what_was_left_out(count):
    row = next(r for r in interval_table(spread_out(0.1, count=count)) if r["known"] == "recipe")
    ends = np.log(row["low"]), np.log(row["high"])
    assert ends == pytest.approx((-0.128, 0.128), abs=0.3 / np.sqrt(count) + 0.02)


def test_of_many_skewed_residuals_the_interval_leaves_out_the_longer_tail():
    skewed = -np.random.default_rng(0).exponential(0.5, 8000)  # measured over predicted: from 1 up
    row = next(r for r in interval_table(spread_out(0.0, count=8000, draw=skewed)))
    assert row["low"] == pytest.approx(1.0, abs=0.01)
    assert np.log(row["high"]) == pytest.approx(0.5 * np.log(5.0), rel=0.1)
    few = interval_table(spread_out(0.0, count=64, draw=skewed[:64]))[0]
    assert few["high"] > row["high"]


def test_intervals_cover_what_drew_neither_them_nor_the_model():
    rows = coverage_table(spread_out(0.1))
    assert {row["known"] for row in rows} == {"recipe", "release", "few", "none"}
    assert all(75 <= row["coverage %"] <= 85 for row in rows)


@pytest.mark.slow
def test_a_load_far_from_measured_runs_or_crowded_has_a_wider_interval():
    rng = np.random.default_rng(1)
    novelty, users = rng.uniform(0.1, 1.0, 4000), 2.0 ** rng.integers(0, 11, 4000)
    crowded = np.maximum(users / CROWD, 1.0)
    draw = rng.normal(0.0, 0.3 * novelty * crowded**0.5)
    known = spread_out(0.0, count=4000, draw=draw, novelty=novelty, users=users)
    row = next(r for r in interval_table(known) if r["known"] == "recipe")
    assert (row["novelty"], row["crowd"]) == pytest.approx((1.0, 0.5), abs=0.1)
    assert np.log(row["high"]) == pytest.approx(1.2816 * 0.3 * USUAL_NOVELTY, rel=0.15)
    blind = next(r for r in interval_table(known) if r["known"] == "none")
    assert blind["novelty"] == 0.0  # where nothing of it was measured, nothing is near
    judged = next(r for r in coverage_table(known) if r["known"] == "recipe")
    assert 75 <= judged["most novel third %"] <= 85


def test_a_thin_cell_draws_on_the_points_of_others():
    """Sixteen exact points of one tier beside two thousand that scatter, of another."""
    draw = np.random.default_rng(0).normal(0.0, 0.3, 2016)
    draw[:8], draw[2000:2008], draw[1000:1008] = 0.0, 0.0, 0.0
    known = spread_out(0.0, metric="decode", count=2016, draw=draw)
    exact = {0, 125, 250}
    for at, target in enumerate(known[OWN].targets):
        tier = "measured" if at // 8 in exact else "sibling"
        known[OWN].targets[at] = replace(target, facts={**target.facts, "tier": tier})
    rows = {r["tier"]: r for r in interval_table(known) if r["known"] == "device"}
    thin, thick = rows["measured"], rows["sibling"]
    assert thin["points"] == 24
    assert thin["high"] > 1.2
    assert np.log(thick["high"]) == pytest.approx(1.2816 * 0.3, rel=0.15)


def test_few_points_state_no_interval():
    assert interval_table(spread_out(0.1, count=4)) == []
    assert coverage_table(spread_out(0.1, count=4)) == []


def test_static_batches_know_devices_and_requests_know_recipes():
    known_of = {
        metric: {row["known"] for row in interval_table(spread_out(0.1, metric))}
        for metric in ("tpot_s", "decode")
    }
    assert known_of == {
        "tpot_s": {"recipe", "release", "few", "none"},
        "decode": {"device", "none"},
    }


# ------------------------------------------------------------------------------- files


def test_the_files_hold_what_was_fitted(tmp_path):
    fitted = fit(synthetic(slow=["h200"]))
    assert write_factors([fitted], "device", tmp_path) == len(SYSTEMS)
    runs = len(SYSTEMS) * len(MODELS) * len(BATCH)
    assert write_runs([fitted], tmp_path / "runs.csv") == runs
    kernels = fit_kernels([(fitted.data, fitted.learned)])
    write_kernels(kernels, tmp_path / "kernels.csv")
    rows = list(csv.DictReader((tmp_path / "devices.csv").open()))
    slow = next(row for row in rows if row["system"] == "h200")
    expected = level(fitted, "device", "h200", "memory_efficiency")
    assert float(slow["memory_efficiency"]) == pytest.approx(expected, abs=1e-4)
    run = next(csv.DictReader((tmp_path / "runs.csv").open()))
    at = next(n for n, t in enumerate(fitted.data.targets) if t.run == run["id"])
    assert float(run["tpot_s"]) == pytest.approx(-fitted.logs[at], abs=1e-5)
    terms = list(csv.DictReader((tmp_path / "kernels.csv").open()))
    noise = {row["latent"]: float(row["value"]) for row in terms if row["term"] == "noise"}
    assert noise == {name: pytest.approx(k.noise, rel=1e-3) for name, k in kernels.items()}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["openvino", "tensorrt-edge-llm"])
def test_a_fit_made_again_gives_what_ships(engine):
    data = load_measurements(engine)[0]
    fitted = fit(data)
    shipped = hardware_db.load_engine(engine)
    levels = np.array(fitted.design.levels)
    again = moved(data.prior, fitted.at[levels == "engine"])
    for field in FIELDS:
        assert getattr(shipped, field) == pytest.approx(getattr(again, field), rel=2e-3)
    for at, (name, label) in enumerate(zip(levels, fitted.design.labels, strict=True)):
        constant = CONSTANTS[fitted.design.constants[at]]
        if name == "device":
            there = tuned(shipped, shipped.measurements.devices[label])
            factor = getattr(there, constant.field) / getattr(shipped, constant.field)
            assert factor == pytest.approx(float(np.exp(fitted.at[at])), rel=2e-3)
