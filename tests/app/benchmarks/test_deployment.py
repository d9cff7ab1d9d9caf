"""The deployment that a result is priced as: from the file, from options, or contradicted."""

import pytest

import model_registry
from app.benchmarks.closed_form import predict
from app.benchmarks.deployment import deployment
from app.benchmarks.load import load_of
from genz_core.errors import InvalidValue, UnknownName
from profilers.serving_results import read_results
from tests.app.benchmarks.conftest import HARDWARE, RUN

FIXTURES = "tests/fixtures/results"


def test_only_what_the_file_lacks_is_asked(read):
    one = deployment(read(RUN))
    assert {ask.name for ask in one.missing} == {"system", "tp"}
    assert [ask.name for ask in one.needed] == ["system"], "one device is an assumption"
    assert one.resolved is None and "--system" in one.question
    with pytest.raises(InvalidValue, match="hardware"):
        one.priced()


def test_what_is_given_fills_what_the_file_lacks(read):
    one = deployment(read(RUN), HARDWARE)
    assert not one.missing and not one.differences
    assert one.priced().system.slug == "h100-sxm5-80gb"
    assert {filling.field for filling in one.fillings} == {"model", "engine", "load"}


def test_a_format_that_nobody_names_is_the_checkpoints_and_said(read):
    one = deployment(read(RUN), {"system": "h100", "tp": 1})
    [ask] = one.missing
    assert ask.name == "weights" and ask.assumed == "the checkpoint's, bf16"


def test_the_files_own_words_for_model_device_and_format_are_found(read):
    said = {
        "model_id": "/models/meta-llama/Llama-3.1-8B", "gpu": "NVIDIA H100 80GB HBM3",
        "tensor_parallel_size": 2, "quantization": "fp8",
    }  # fmt: skip
    one = deployment(read({**RUN, **said}))
    resolved = one.priced()
    assert not one.missing
    assert resolved.system.slug == "h100-sxm5-80gb" and one.scenario.tp == 2
    assert one.scenario.weights == "fp8"


def test_a_checkpoint_named_after_its_format_is_its_model_in_that_format(read):
    one = deployment(read({**RUN, "model_id": "someone/Llama-3.1-8B-nvfp4"}), {"system": "b200"})
    assert one.priced().model.spec.name.endswith("Llama-3.1-8B")
    assert "nvfp4" in one.priced().model.precision.weights.values()


def test_the_beginning_of_a_models_name_in_a_file_is_another_model(read):
    assert model_registry.load("tiny").name == "CohereLabs/tiny-aya-base", "where it is typed"
    one = deployment(read({**RUN, "model_id": "my/tiny"}), HARDWARE)
    [ask] = one.missing
    assert ask.name == "model" and "my/tiny" in ask.why


def test_where_file_and_reader_differ_both_are_named(read):
    one = deployment(read({**RUN, "gpu": "H200", "tensor_parallel_size": 4}), HARDWARE)
    said = {difference.field: str(difference) for difference in one.differences}
    assert set(said) == {"system", "tp"}
    assert "H100" in said["system"] and "H200" in said["system"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"concurrency": 4}, "concurrency: the scenario says 4, what ran 8"),
        ({"isl": 4096}, "isl: the scenario says 4,096, what ran 1,024"),
        ({"osl": 128}, "osl: the scenario says 128, what ran 1,024"),
        ({"rate": 2.0}, "load: the scenario says 2 requests/s, what ran concurrency 8"),
    ],
)
def test_a_load_that_the_file_contradicts_is_a_difference(read, given, words):
    [difference] = deployment(read(RUN), {**HARDWARE, **given}).differences
    assert words in str(difference)


def test_a_load_that_is_the_files_is_none(read):
    same = {"concurrency": 8, "isl": 1000, "osl": 1024}
    assert not deployment(read(RUN), {**HARDWARE, **same}).differences
    open_loop = read({**RUN, "request_rate": 0.1, "max_concurrency": None})
    assert not deployment(open_loop, {**HARDWARE, "rate": 0.1}).differences
    [difference] = deployment(open_loop, {**HARDWARE, "concurrency": 8}).differences
    assert difference.field == "load" and difference.ran == "0.1 requests/s"
    fewer = read({**RUN, "max_concurrency": 100})
    assert not deployment(fewer, {**HARDWARE, "concurrency": 80}).differences


def test_a_name_that_is_given_and_unknown_is_refused_with_near_ones(read):
    with pytest.raises(UnknownName, match="near"):
        deployment(read(RUN), {"system": "h101"})


def test_a_device_that_nobody_knows_is_asked_for_by_its_name(read):
    [system, *_] = deployment(read({**RUN, "gpu": "Quantum 9000"})).needed
    assert "'Quantum 9000'" in system.why


def test_a_rate_that_open_requests_held_back_is_a_closed_loop(read):
    held = {**RUN, "request_rate": 50.0}
    assert load_of(read(held), {}).concurrency == 8, "0.87/s x 9.2 s is eight open requests"
    light = {**RUN, "request_rate": 0.1, "request_throughput": 0.1}
    assert load_of(read(light), {}).rate == 0.1, "one open request of eight"


def test_everything_at_once_is_a_user_a_request(read):
    load = load_of(read({**RUN, "max_concurrency": None}), {})
    assert (load.concurrency, load.waves) == (80, 1)


def test_nominal_lengths_have_the_mean_that_the_run_had():
    for measurement in read_results(f"{FIXTURES}/sglang/llama_405b_online_output.jsonl"):
        load = load_of(measurement, {})
        assert load.mean_isl == pytest.approx(measurement.lengths.isl.mean, rel=0.01)
        assert load.mean_osl == pytest.approx(measurement.lengths.osl.mean, rel=0.01)


def test_a_run_is_labelled_with_the_mean_lengths_that_were_served():
    """The file counts 152,612 tokens in and 160,347 out in 300 requests, drawn from 1 to 1,024."""
    for measurement in read_results(f"{FIXTURES}/sglang/llama_405b_online_output.jsonl"):
        load, lengths = load_of(measurement, {}), measurement.lengths
        assert load.mean_isl == pytest.approx(lengths.isl.mean, rel=1e-9)
        assert f"{lengths.isl.mean:,.0f}/{lengths.osl.mean:,.0f} tokens" in load.words
        assert ("(1/1 to 1,024/1,024)" in load.words) == (measurement.load.dataset == "random")
        assert load.document()["mean_osl"] == pytest.approx(lengths.osl.mean, rel=1e-9)


def test_lengths_without_a_stated_range_are_labelled_alone(read):
    assert load_of(read(RUN), {}).words == "concurrency 8, 1,024/1,024 tokens"
    given = {"isl": 1024, "osl": 128, "length_ratio": 0.5}
    assert load_of(read(RUN), given).words == "concurrency 8, 768/96 tokens (512/64 to 1,024/128)"
    assert load_of(read(RUN), {**given, "length_ratio": 1.0}).words.endswith("1,024/128 tokens")


def test_the_mean_given_as_the_longest_length_is_a_difference():
    [first, *_] = read_results(f"{FIXTURES}/sglang/llama_405b_online_output.jsonl")
    known = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8}
    assert not deployment(first, {**known, "isl": 1024}).differences
    [difference] = deployment(first, {**known, "isl": 509}).differences
    assert "the scenario says 509, what ran 1,024" in str(difference)


def test_two_loads_or_another_word_are_refused(read):
    with pytest.raises(InvalidValue, match="give one of"):
        deployment(read(RUN), {**HARDWARE, "rate": 1.0, "concurrency": 2})
    with pytest.raises(InvalidValue, match="'gpu' is not a parameter"):
        deployment(read(RUN), {"gpu": "h100"})


def test_a_limit_of_the_engine_that_is_given_is_priced_and_one_that_means_nothing_refused(read):
    """Once only names, degrees and lengths could be given."""
    told = deployment(read(RUN), {**HARDWARE, "max_num_seqs": "4", "engine_version": "0.9.0"})
    assert (told.scenario.max_num_seqs, told.scenario.engine_version) == (4, "0.9.0")
    few, many = (
        predict(deployment(read(RUN), {**HARDWARE, "max_num_seqs": limit}), 0.8).figures
        for limit in (4, 256)
    )
    assert few["ttft_mean_s"].value > 2 * many["ttft_mean_s"].value
    with pytest.raises(InvalidValue, match="cp does not apply to a load"):
        deployment(read(RUN), {**HARDWARE, "cp": 2})
    with pytest.raises(InvalidValue, match="burst_start does not apply to compare"):
        deployment(read(RUN), {**HARDWARE, "burst_start": True})
