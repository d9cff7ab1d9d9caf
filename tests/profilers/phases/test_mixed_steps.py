"""Mixed steps are priced as the ragged batches that their ranges describe."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import genz_core
import hardware_db
import model_registry
import profilers
from genz_core.phases import mixed
from genz_core.types import Group, Workload
from profilers.comparison.compare import compare
from profilers.phases.mixed_steps import expected_mixed, ragged_batch

SGLANG_DECODE = "torch/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"
#: 15 prompts of 1,024 tokens and 32 sequences over 32,785 tokens, as vLLM names such a step.
STEP = (
    "execute_15392_context_15(sq15360sk15360sqsq15728640sqsk15728640)"
    "_generation_32(sq32sk32785sqsq32sqsk32785)"
)


def sums(queries):
    """n, q, k, qq and qk of (new, cached) pairs."""
    q = np.array([new for new, _ in queries], dtype=float)
    k = q + np.array([cached for _, cached in queries], dtype=float)
    return [len(queries), q.sum(), k.sum(), (q * q).sum(), (q * k).sum()]


@given(st.lists(st.tuples(st.integers(1, 8192), st.integers(0, 30000)), min_size=1, max_size=20))
def test_a_ragged_batch_keeps_the_sums_that_set_the_work(queries):
    group, *rest = ragged_batch([*sums(queries), 0, 0, 0, 0, 0])
    assert not rest
    _, q, _, qq, qk = sums(queries)
    assert group.sequences * group.new_tokens == pytest.approx(q)
    assert group.sequences * group.new_tokens**2 == pytest.approx(qq)
    attended = group.new_tokens + group.cached_tokens
    assert group.sequences * group.new_tokens * attended == pytest.approx(qk)


def test_equal_sequences_are_the_batch_itself():
    assert ragged_batch([*sums([(1024, 512)] * 6), *sums([(1, 999)] * 32)]) == (
        Group(6.0, 1024.0, 512.0),
        Group(32.0, 1.0, 999.0),
    )


def renamed(report_path, tmp_path, name: str):
    """The decode trace with its steps renamed."""
    trace = json.loads(gzip.decompress(report_path(SGLANG_DECODE).read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") == "user_annotation":
            event["name"] = name
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps(trace))
    return profilers.read_report(path)


@pytest.fixture(scope="module")
def estimate():
    model, system = model_registry.load("Qwen/Qwen3-8B"), hardware_db.load("mi300x")
    engine = hardware_db.load_engine("sglang")
    return genz_core.estimate(model, system, Workload(1, 128, 2), engine=engine)


def test_a_mixed_step_is_compared_with_the_price_of_what_it_held(report_path, tmp_path, estimate):
    report = renamed(report_path, tmp_path, STEP)
    found = compare(estimate, profilers.measure_from([report]), reports=[report])
    (whole,) = found.phases.to_dict("records")
    batch = (Group(15.0, 1024.0, 0.0), Group(32.0, 1.0, 32785 / 32 - 1))
    step = mixed(estimate.model, estimate.system, batch, estimate.parallelism, estimate.engine)
    assert whole["phase"] == "mixed"
    assert whole["predicted_s"] == pytest.approx(float(step.operators_s[:, 0].sum()))
    assert whole["predicted_wall_s"] == pytest.approx(float(step.total_s[0]))
    assert whole["joined_share"] > 0.9


def test_a_mixed_step_that_names_no_sums_is_refused_with_the_reason(
    report_path, tmp_path, estimate
):
    report = renamed(report_path, tmp_path, "step[MIXED bs=40 toks=900]")
    with pytest.raises(genz_core.errors.InvalidValue, match="ranges do not state their prompts"):
        compare(estimate, profilers.measure_from([report]), reports=[report])


@pytest.mark.parametrize("name", ["openai/gpt-oss-20b", "google/gemma-2-9b"])
def test_two_kinds_of_layers_that_occur_equally_often_are_counted_once(report_path, tmp_path, name):
    model, system = model_registry.load(name), hardware_db.load("h100")
    engine = hardware_db.load_engine("vllm")
    whole = genz_core.estimate(model, system, Workload(1, 128, 2), engine=engine)
    report = renamed(report_path, tmp_path, STEP)
    found = expected_mixed(whole, [report])
    batch = (Group(15.0, 1024.0, 0.0), Group(32.0, 1.0, 32785 / 32 - 1))
    step = mixed(model, system, batch, whole.parallelism, whole.engine)
    named = [(op.name, op.module) for op in found.program]
    assert len(set(named)) < len(named), "two kinds of layers name their operators alike"
    assert sum(found.operators["predicted_s"]) == pytest.approx(float(step.operators_s[:, 0].sum()))
