"""Step prices for other programs: exactly their formats, with our prices."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.question.question import Question
from app.scenario import mixed_step
from app.scenario.scenario import resolve
from app.simulation.predictor import sglang
from app.simulation.predictor.files import files_for
from app.simulation.predictor.step_prices import StepPrices, step_prices
from genz_core.errors import InvalidValue

MODEL, LONGEST = "Qwen/Qwen3-8B", 8192
EXPERTS = "Qwen/Qwen3-30B-A3B"


def scenario(**given) -> Question:
    return Question(**{"model": MODEL, "system": "h100", "engine": "vllm", **given})


@pytest.fixture(scope="module")
def prices() -> StepPrices:
    return step_prices(resolve(scenario(tp=2)), LONGEST)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory):
    """A folder of profile results, written by the command."""
    folder = tmp_path_factory.mktemp("profile")
    words = ["predictor", MODEL, "--for", "dynamo", "--tp", "2", "--context", str(LONGEST)]
    answered = CliRunner().invoke(cli, [*words, "--output", str(folder)])
    assert answered.exit_code == 0, answered.output
    return folder


# ------------------------------------------------------------------------------- Dynamo


def test_prefill_results_are_read_as_the_planner_reads_them(profile, prices):
    """The keys, the unit and the cubic interpolation of Dynamo's PrefillInterpolator."""
    import scipy.interpolate

    with np.load(profile / "selected_prefill_interpolation" / "raw_data.npz") as data:
        assert set(data) == {"prefill_isl", "prefill_ttft", "prefill_thpt_per_gpu"}
        isl, ttft_ms, per_gpu = (data[n] for n in ("prefill_isl", "prefill_ttft", *_LAST))
    assert isl.ndim == ttft_ms.ndim == per_gpu.ndim == 1 and len(isl) >= 4
    assert np.all(np.diff(isl) > 0) and isl[0] == 100
    np.testing.assert_allclose(per_gpu, isl / ttft_ms * 1e3 / 2, rtol=1e-12)
    ttft = scipy.interpolate.interp1d(isl, ttft_ms, kind="cubic")
    scipy.interpolate.interp1d(isl, per_gpu, kind="cubic")
    assert float(ttft(3000)) / 1e3 == pytest.approx(prices.prompt_s(3000), rel=0.03)


_LAST = ("prefill_thpt_per_gpu",)


def test_decode_results_are_read_as_the_planner_reads_them(profile, prices):
    """The keys, units and grids of Dynamo's DecodeInterpolator."""
    import scipy.interpolate

    with np.load(profile / "selected_decode_interpolation" / "raw_data.npz") as data:
        usage, context, itl_ms, per_gpu = (
            data[n] for n in ("x_kv_usage", "y_context_length", "z_itl", "z_thpt_per_gpu")
        )
        most = data["max_kv_tokens"][0]
        assert len(data.files) == 5 and data["max_kv_tokens"].shape == (1,)
    assert usage.min() > 0 and usage.max() <= 1.0
    sequences = usage * most / context
    np.testing.assert_allclose(sequences, sequences.round(), rtol=1e-9)
    np.testing.assert_allclose(per_gpu, sequences / itl_ms * 1e3 / 2, rtol=1e-9)
    axes = np.meshgrid(np.linspace(0, 1, 100), np.linspace(0, context.max(), 100))
    grid = scipy.interpolate.griddata((usage, context), itl_ms, tuple(axes), method="cubic")
    assert np.isfinite(grid).mean() > 0.5
    at = (0.5, 4000.0)
    read = scipy.interpolate.griddata((usage, context), itl_ms, at, method="cubic")
    count = round(at[0] * most / at[1])
    assert float(read) / 1e3 == pytest.approx(prices.decode_s(count, at[1]), rel=0.05)


def test_a_config_map_holds_the_same(profile):
    for phase in ("prefill", "decode"):
        plain = json.loads((profile / f"{phase}_raw_data.json").read_text())
        with np.load(profile / f"selected_{phase}_interpolation" / "raw_data.npz") as data:
            assert set(plain) == set(data)
            for name in data:
                np.testing.assert_array_equal(np.ravel(plain[name]), data[name])
    assert isinstance(plain["max_kv_tokens"], int)


def test_ranks_with_attention_of_their_own_read_a_prompt_each():
    resolved = resolve(scenario(model=EXPERTS, tp=1, dp=4, ep=4))
    made = step_prices(resolved, 4096)
    with_ranks = json.loads(files_for("dynamo", resolved, 4096)["prefill_raw_data.json"])
    alone_s = made.prompt_s(with_ranks["prefill_isl"][3])
    per_gpu = with_ranks["prefill_isl"][3] / alone_s  # four prompts on four devices
    assert with_ranks["prefill_thpt_per_gpu"][3] == pytest.approx(per_gpu)


# ------------------------------------------------------------------------------- SGLang


def test_the_replay_table_is_keyed_as_the_simulator_looks_steps_up():
    """The key of ReplayTimePredictor: a JSON list of sorted [new, cached] pairs."""
    resolved = resolve(scenario(engine="sglang", tp=2))
    files = files_for("sglang", resolved, LONGEST)
    table = json.loads(files["replay_table.json"])
    assert 400 < len(table) < 4000 and all(seconds > 0 for seconds in table.values())
    for key in table:
        assert key == json.dumps(sorted([new, cached] for new, cached in json.loads(key)))
    made = step_prices(resolved, LONGEST)
    decodes = [[1, LONGEST]] * 2
    assert table[json.dumps(sorted(decodes))] == pytest.approx(made.decode_s(2, LONGEST + 1.0))
    settings = json.loads(files["simulator.json"])
    assert settings["predictor"]["name"] == "replay"
    assert settings["predictor"]["database_path"] in files
    assert settings["scheduler"]["tp_size"] == 2


def test_a_step_that_is_not_in_the_table_is_near_its_neighbours():
    """The simulator's mean of three neighbours by requests and tokens, compared with our
    own price.
    """
    resolved = resolve(scenario(engine="sglang"))
    made = step_prices(resolved, LONGEST)
    rows = [(_shape(step), seconds) for step, seconds in sglang.steps(made)]
    shapes = np.array([shape for shape, _ in rows], dtype=float)
    scale = shapes.std(axis=0)
    for count, context in ((3, 700), (20, 3000), (100, 1500)):
        asked = _shape([(1, context)] * count)
        away = (((shapes - asked) / scale) ** 2).sum(axis=1)
        nearest = np.mean([rows[at][1] for at in np.argsort(away)[:3]])
        assert nearest == pytest.approx(made.decode_s(count, context + 1.0), rel=0.35)


def _shape(step) -> tuple[float, float, float]:
    return len(step), sum(new for new, _ in step), sum(cached for _, cached in step)


# ------------------------------------------------------------------------------- prices


def test_steps_are_priced_as_a_mixed_step_is(prices):
    """By `genz_core.mixed`, up to the grids of the tables, which the simulator's own test
    covers.
    """
    resolved = resolve(scenario(tp=2))
    decode = mixed_step.price(resolved, mixed_step.parse_groups("", "32x2048"))
    scale = resolved.engine.recipe.tpot_scale or 1.0
    assert prices.decode_s(32, 2048.0) == pytest.approx(float(decode.total_s[0]) * scale, rel=0.1)


def test_a_whole_prompt_is_one_step_longer_than_any_chunk():
    cut, whole = (
        step_prices(resolve(scenario(chunked_prefill=told)), 16_384) for told in ("yes", "no")
    )
    assert (cut.chunk, whole.chunk) == (8192, 16_384)
    assert whole.prompt_s(16_000) < cut.prompt_s(16_000)


def test_longer_prompts_and_more_sequences_take_longer(prices):
    prompts = [prices.prompt_s(tokens) for tokens in (100, 1000, 4000, 8000)]
    decodes = [prices.decode_s(count, 4000.0) for count in (1, 8, 64, 256)]
    assert prompts == sorted(prompts) and decodes == sorted(decodes)


def test_what_cannot_be_written_is_refused_in_a_sentence():
    with pytest.raises(InvalidValue, match="dynamo and sglang"):
        files_for("vidur", resolve(scenario()), LONGEST)
    with pytest.raises(InvalidValue, match="pp 2"):
        step_prices(resolve(scenario(pp=2)), LONGEST)
    with pytest.raises(InvalidValue, match="1,024"):
        step_prices(resolve(scenario()), 512)
