"""Launches join predicted operators by modules, shapes, their place in the layers, and FLOPs."""

import dataclasses
import functools
import gzip
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import genz_core
import hardware_db
import model_registry
import profilers
from genz_core.types import Workload
from profilers.comparison.compare import compare, in_phase
from profilers.comparison.findings import CAUSES_OF_FAILURE
from profilers.matching.launch_join import join
from profilers.matching.program import Planned, order_of_runs, planned
from profilers.matching.table_join import match_launches
from profilers.schema import (
    kernel_table,
)
from profilers.timeline.step_launches import step_launches
from tests.draws import cases

H100 = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
SGLANG_PREFILL = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
SGLANG_DECODE = "torch/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"
VLLM_DECODE = "torch/inference_vllm_decode_full_graph_execution.json.gz"
#: Trace -> model, system, engine, batch and prompt (or context) as its ranges and shapes state.
RAN = {
    H100: ("Qwen/Qwen1.5-0.5B-Chat", "h100", "hf", 16, 559),
    SGLANG_PREFILL: ("Qwen/Qwen3-8B", "mi300x", "sglang", 15, 1024),
    SGLANG_DECODE: ("Qwen/Qwen3-8B", "mi300x", "sglang", 32, 1024),
    VLLM_DECODE: ("openai/gpt-oss-20b", "mi300x", "vllm", 32, 1721),
}
#: Kernel time [s] of the H100 step by the trace's own module stack.
TRUE_S = {
    "o_proj": 0.76e-3, "down_proj": 1.82e-3, "qkv_proj": 2.27e-3, "gate_up_proj": 4.02e-3,
}  # fmt: skip


@functools.cache
def priced(model: str, system: str, engine: str, batch: int, isl: int):
    return genz_core.estimate(
        model_registry.load(model),
        hardware_db.load(system),
        Workload(batch, isl, 2),
        engine=hardware_db.load_engine(engine),
    )


def compared(report, ran):
    measurement = profilers.measure_from([report])
    if not measurement.phases:
        measurement = in_phase(measurement, "prefill")
    return compare(priced(*ran), measurement, reports=[report])


def without_modules(report):
    nothing = report.kernels["module"].cat.remove_categories(
        report.kernels["module"].cat.categories
    )
    return dataclasses.replace(report, kernels=report.kernels.assign(module=nothing))


def check_laws(found) -> None:
    """Parts add up to their whole, shares are in [0, 1], nothing is negative."""
    for whole in found.phases.to_dict("records"):
        for table in (found.classes, found.operators):
            rows = table[table["phase"] == whole["phase"]]
            assert (rows["measured_s"] >= 0).all()
            assert rows["measured_s"].sum() == pytest.approx(whole["measured_s"], rel=1e-6)
        assert 0 <= whole["joined_share"] <= 1
        assert -1e-12 <= whole["idle_s"] <= whole["wall_s"] * (1 + 1e-12)
        assert whole["busy_s"] + whole["idle_s"] == pytest.approx(whole["wall_s"])
    assert 0 <= found.joined_share <= 1
    assert all(finding.seconds >= 0 for finding in found.findings)
    gains = [finding.seconds for finding in found.findings]
    assert gains == sorted(gains, reverse=True)


# ------------------------------------------------------------------------------- real traces


@pytest.mark.parametrize("modules", [True, False], ids=["modules", "shapes alone"])
def test_the_h100_trace_joins_as_its_own_module_stack_says(report_of, modules):
    report = report_of(H100)
    found = compared(report if modules else without_modules(report), RAN[H100])
    check_laws(found)
    rows = found.operators.set_index("name")
    for name, true_s in TRUE_S.items():
        assert rows.loc[name, "measured_s"] == pytest.approx(true_s, rel=0.02), name
    norms = found.classes.set_index("class").loc["norm", "measured_s"]
    assert norms == pytest.approx(7.38e-3, rel=0.02)
    assert found.phases["measured_s"][0] == pytest.approx(31.8e-3, rel=0.02)
    assert found.joined_share >= 0.95
    launches = rows["launches"].to_dict()
    assert (launches["o_proj"], launches["down_proj"]) == (24, 24)
    assert (launches["qkv_proj"], launches["gate_up_proj"]) == (72, 48)
    ways = {"module"} if modules else {"shape", "sequence"}
    assert set(found.operators["matched_by"]) - {"none"} == ways


@pytest.mark.parametrize("name", RAN)
def test_nearly_all_kernel_time_of_real_traces_joins_a_predicted_operator(report_of, name):
    found = compared(report_of(name), RAN[name])
    check_laws(found)
    assert found.joined_share >= 0.95


@pytest.mark.parametrize("name", [SGLANG_PREFILL, SGLANG_DECODE, VLLM_DECODE])
def test_an_operator_is_launched_as_often_as_it_runs(report_of, name):
    rows = compared(report_of(name), RAN[name]).operators
    single = rows[
        rows["class"].isin(["gemm", "norm"]) & (rows["runs"] > 0) & (rows["launches"] > 0)
    ]
    assert len(single) >= 6
    assert (single["launches"] == single["runs"]).all()


def test_kernels_of_a_graph_join_by_the_period_of_the_layers(report_of):
    """TraceLens' table of the eager prefill names the products; the graph of decode has the same
    order: QKV, output, gate and up, down in each of 36 layers."""
    report = report_of(SGLANG_DECODE)
    rows = compared(report, RAN[SGLANG_DECODE]).operators.set_index("name")
    kernels = report.kernels.sort_values("start_s")
    products = kernels[kernels["operator_class"] == "gemm"]["duration_s"].to_numpy()
    by_place = products[:-1].reshape(36, 4).sum(axis=0)
    for name, true_s in zip(
        ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"), by_place, strict=True
    ):
        assert rows.loc[name, "measured_s"] == pytest.approx(true_s)
        assert rows.loc[name, "matched_by"] == "sequence"
    assert rows.loc["lm_head", "measured_s"] == pytest.approx(products[-1])


def test_a_trace_of_another_depth_joins_nothing_by_sequence_alone(report_of):
    """36 layers ran and 24 are predicted, so launches and predicted runs differ."""
    found = compared(report_of(SGLANG_DECODE), ("openai/gpt-oss-20b", "mi300x", "vllm", 32, 1721))
    check_laws(found)
    assert "sequence" not in set(found.operators["matched_by"][found.operators["class"] == "gemm"])
    [another] = [one for one in found.failed if "another model ran" in one.why]
    assert another.left < another.right == 50.0 and another.phase == "decode"
    assert {one.kind for one in found.findings} <= set(CAUSES_OF_FAILURE)


def test_a_range_around_several_steps_is_said_to_hold_them(report_of):
    """The range of one step contains twice the launches of the H100 step."""
    report = report_of(H100)
    later = report.kernels["start_s"] + 1.0
    twice = pd.concat([report.kernels, report.kernels.assign(start_s=later)], ignore_index=True)
    for column in report.kernels.columns[report.kernels.dtypes == "category"]:
        twice[column] = twice[column].astype("category")
    report = dataclasses.replace(report, kernels=twice)
    found = compared(report, RAN[H100])
    assert any("--steps prefill=2" in note for note in found.notes)
    measurement = in_phase(profilers.measure_from([report]), "prefill")
    told = compare(priced(*RAN[H100]), measurement, reports=[report], steps={"prefill": 2})
    assert told.phases["measured_s"][0] == pytest.approx(31.8e-3, rel=0.02)
    assert told.operators.set_index("name").loc["o_proj", "launches"] == 24
    assert not any("--steps" in note for note in told.notes)


# ------------------------------------------------------------------------------- small programs


def plan(name: str, kind: str, n: int = 0, k: int = 0, layers: int = 2, **more: Any) -> Planned:
    operator_class = more.pop("operator_class", kind)
    return Planned(name, kind, operator_class, "layers", tuple(range(layers)), n=n, k=k, **more)


PROGRAM = (
    plan("input_norm", "norm"),
    plan("qkv_proj", "gemm", 96, 32),
    plan("attention", "attention"),
    plan("o_proj", "gemm", 32, 32),
    plan("gate_up_proj", "gemm", 256, 32),
    plan("act_mul", "activation", operator_class="pointwise"),
    plan("down_proj", "gemm", 32, 128),
)


def launched(*kinds: str):
    """Launches of a step, one per microsecond, of kernels named after their kind; "routing" has the
    class "moe".
    """
    count = len(kinds)
    kernels = kernel_table(
        {
            "name": [f"{kind} kernel" for kind in kinds],
            "start_s": np.arange(count) * 1e-6,
            "duration_s": np.full(count, 5e-7),
            "operator_class": ["moe" if kind == "routing" else kind for kind in kinds],
            "phase": ["decode"] * count,
            "step": np.zeros(count, dtype=np.int64),
        }
    )
    report = profilers.Report("torch-trace", "torch", None, "made", kernels, *(None,) * 4, notes=())
    found = step_launches([report], "decode")
    assert found is not None
    return found


LAYER = ("norm", "gemm", "attention", "gemm", "gemm", "activation", "gemm")


def test_equal_kernels_take_their_place_in_the_layer():
    joined = join(launched(*LAYER * 2), PROGRAM, range(len(PROGRAM)))
    assert joined.operator.tolist() == [*range(7), *range(7)]
    assert set(joined.evidence) == {"sequence"}


def test_three_products_before_attention_are_one_fused_projection():
    """Unfused q, k and v in a graph, which has no shapes."""
    layer = ("norm", "gemm", "gemm", "gemm", *LAYER[2:])
    joined = join(launched(*layer * 2), PROGRAM, range(len(PROGRAM)))
    assert joined.operator.tolist() == [0, 1, 1, 1, 2, 3, 4, 5, 6] * 2


def test_a_range_around_several_steps_holds_the_program_as_often():
    joined = join(launched(*LAYER * 6), PROGRAM, range(len(PROGRAM)), 3)
    assert joined.operator.tolist() == [*range(7)] * 6
    assert set(joined.met.values()) == {2.0}, "layers of a step"


def test_a_launch_that_the_program_lacks_stays_unmatched():
    joined = join(launched("sampling", *LAYER, "sampling", *LAYER), PROGRAM, range(len(PROGRAM)))
    assert joined.operator.tolist() == [-1, *range(7), -1, *range(7)]
    assert joined.evidence[0] == "none"


def test_a_program_of_more_layers_than_ran_is_not_joined_by_sequence():
    deep = tuple(dataclasses.replace(operator, layers=tuple(range(5))) for operator in PROGRAM)
    joined = join(launched(*LAYER * 2), deep, range(len(deep)))
    assert set(joined.operator.tolist()) == {-1}


def test_one_launch_of_two_products_of_the_same_input_joins_both():
    """q_a and kv_a of latent attention, which engines compute in one product."""
    program = (
        plan("q_a_proj", "gemm", 1536, 7168),
        plan("kv_a_proj", "gemm", 576, 7168),
        plan("o_proj", "gemm", 7168, 2048),
    )
    shapes = ["[[4,7168],[7168,2112]]", "[[4,2048],[2048,7168]]"] * 2
    found = launched("gemm", "gemm", "gemm", "gemm")
    kernels = found.kernels.assign(
        operator=pd.Categorical(["aten::mm"] * 4), input_shapes=pd.Categorical(shapes)
    )
    joined = join(dataclasses.replace(found, kernels=kernels), program, range(3))
    assert joined.operator.tolist() == [0, 2, 0, 2]
    assert joined.merged == {1: 0}
    predicted = pd.DataFrame(
        {"name": [one.name for one in program], "class": "gemm", "runs": 2.0, "flops": 1.0,
         "bound_s": 1.0, "predicted_s": 2.0, "low_s": np.nan, "high_s": np.nan}
    )  # fmt: skip
    rows = match_launches(predicted, kernels, joined, 1).set_index("name")
    assert rows.loc["q_a_proj, kv_a_proj", ["runs", "launches", "predicted_s"]].tolist() == [
        2,
        2,
        4,
    ]


@pytest.mark.parametrize("spelled", ["classes", "NVTX ranges"])
def test_modules_join_spelled_as_classes_or_as_attributes(report_of, spelled):
    report = report_of(H100)
    kernels = report.kernels
    if spelled == "NVTX ranges":
        paths = kernels["module"].astype(object).map(_attributes, na_action="ignore")
        kernels = kernels.assign(module=None, nvtx_path=paths.astype("category"))
        kernels["module"] = kernels["module"].astype("category")
    found = compared(dataclasses.replace(report, kernels=kernels), RAN[H100])
    rows = found.operators[found.operators["measured_s"] > 1e-4].set_index("name")
    assert set(rows["matched_by"]) == {"module", "none"}
    for name, true_s in TRUE_S.items():
        assert rows.loc[name, "measured_s"] == pytest.approx(true_s, rel=0.02), name


_LINEARS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")  # fmt: skip


def _attributes(path: str) -> str:
    """The NVTX range of a module of Hugging Face's Qwen2 by its class and number."""
    kind, _, number = path.rpartition("/")[2].rpartition("_")
    at = int(number)
    if kind == "Qwen2RMSNorm":
        norms = ("input_layernorm", "post_attention_layernorm")
        return "step/model.norm" if at == 48 else f"step/model.layers.{at // 2}.{norms[at % 2]}"
    names = {
        "Linear": f"model.layers.{at // 7}.{_LINEARS[at % 7]}",
        "Qwen2Attention": f"model.layers.{at}.self_attn",
        "Qwen2MLP": f"model.layers.{at}.mlp",
        "SiLU": f"model.layers.{at}.mlp.act_fn",
        "Embedding": "model.embed_tokens",
        "Qwen2RotaryEmbedding": "model.rotary_emb",
        "Qwen2DecoderLayer": f"model.layers.{at}",
    }
    return f"step/{names.get(kind, 'model')}"


@given(
    st.lists(st.sampled_from([*LAYER, "memory", "elementwise", "moe", "unclassified"]), max_size=60)
)
@settings(max_examples=cases(60), deadline=None)
def test_any_sequence_of_launches_joins_in_order_or_not_at_all(kinds):
    if not kinds:
        return
    joined = join(launched(*kinds), PROGRAM, range(len(PROGRAM)))
    assert len(joined.operator) == len(kinds)
    assert ((joined.operator >= -1) & (joined.operator < len(PROGRAM))).all()
    assert ((joined.operator < 0) == (joined.evidence == "none")).all()


#: Predicted kind, or class, -> class of the kernel that runs it.
_RUNS_AS = {"rope": "rope", "activation": "activation", "routing": "routing"}
_CLASS_RUNS_AS = {"collective": "communication"}


@pytest.mark.by_day(8)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("tp", [1, 8])
@pytest.mark.parametrize(
    "model",
    ["meta-llama/Llama-3.1-70B", "Qwen/Qwen3-30B-A3B", "google/gemma-3-4b-pt",
     "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct"],
)  # fmt: skip
def test_a_graph_that_ran_as_predicted_joins_launch_by_launch(model, tp, phase):
    """Kernels of a graph only show their class; their order is that of the model."""
    estimate = genz_core.estimate(
        model_registry.load(model), hardware_db.load("b200"), Workload(16, 1024, 16),
        genz_core.Parallelism(tp=tp), on_error="status",
    )  # fmt: skip
    step = getattr(estimate, phase)
    program = planned(step)
    rows = np.flatnonzero(np.array(step.table()["predicted_s"], dtype=float) > 0).tolist()
    order = order_of_runs(program, rows)
    kinds = [
        _RUNS_AS.get(program[row].kind)
        or _CLASS_RUNS_AS.get(program[row].operator_class, program[row].operator_class)
        for row in order
    ]
    assert join(launched(*kinds), program, rows).operator.tolist() == order


# ------------------------------------------------------------------------------- mutated traces


@pytest.fixture(scope="module")
def events(report_path):
    return json.loads(gzip.decompress(report_path(SGLANG_DECODE).read_bytes()))


_MUTATIONS = st.sampled_from(["drop", "stretch", "move", "rename", "unlink"])


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), _MUTATIONS, st.floats(0.02, 0.6))
@settings(
    max_examples=cases(15), deadline=None, phases=(Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def test_parts_sum_to_the_step_in_traces_that_were_tampered_with(
    events, tmp_path_factory, seed, mutation, share
):
    random = np.random.default_rng(seed)
    changed = [_mutated(event, mutation, random, share) for event in events["traceEvents"]]
    path = tmp_path_factory.mktemp("mutated") / "trace.json"
    kept = [event for event in changed if event is not None]
    path.write_text(json.dumps({**events, "traceEvents": kept}))
    found = compared(profilers.read_report(path), RAN[SGLANG_DECODE])
    check_laws(found)


def _mutated(event, mutation, random, share):
    """An event, mutated with the probability `share`."""
    if event.get("cat") != "kernel" or random.random() > share:
        return event
    if mutation == "drop":
        return None
    if mutation == "stretch":
        return event | {"dur": event["dur"] * float(random.uniform(0, 20))}
    if mutation == "move":
        return event | {"ts": event["ts"] + float(random.uniform(-1e4, 1e4))}
    if mutation == "rename":
        return event | {"name": str(random.choice(["x", "gemm", "fmha", "rms_norm", "silu"]))}
    return event | {"args": {"device": event["args"].get("device", 0), "stream": 0}}


@pytest.mark.parametrize("name", RAN)
def test_the_whole_originals_join_as_their_cuts_do(originals, report_of, name):
    whole = compared(profilers.read_report(originals / name), RAN[name])
    cut = compared(report_of(name), RAN[name])
    assert whole.joined_share == pytest.approx(cut.joined_share, rel=1e-9)
    assert whole.joined_share >= 0.85
