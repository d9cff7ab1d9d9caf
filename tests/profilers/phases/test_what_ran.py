"""What ran: sizes from the names of ranges and from shapes, each with its origin."""

import dataclasses

import pandas as pd
import pytest

from profilers.phases.inferred_phases import phased
from profilers.phases.step_names import named_step
from profilers.phases.step_shapes import layers_by_name, shape_facts
from profilers.phases.what_ran import what_ran, what_was_kept

_TORCH = "torch/inference_{}.json.gz"
_PREFILL = _TORCH.format("sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode")
_DECODE = _TORCH.format("sglang_decode_sglang_Qwen3-8B_decode")
_VLLM = _TORCH.format("vllm_decode_full_graph_execution")
_H100 = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"


def sizes(name: str) -> tuple[str, ...] | None:
    """(engine, phase, prompts, new tokens, attended, answers, attended) of a range's name."""
    step = named_step(name)
    if step is None:
        return None
    prompts, answers = step.prompts, step.answers
    return (step.engine, step.phase, prompts.count, prompts.new_tokens, prompts.attended,
            answers.count, answers.attended)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("step[EXTEND bs=15 toks=15360]", ("sglang", "prefill", 15, 15360, None, 0, 0)),
        ("step[DECODE bs=32]", ("sglang", "decode", 0, 0, 0, 32, None)),
        ("step[DECODE bs=64 g_sq=64 g_sqsq=64 g_sqsk=131072 g_sk=131072]",
         ("sglang", "decode", 0, 0, 0, 64, 131072)),
        ("step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=7144 c_sqsq=1 c_sqsk=1 g_sq=3 g_sk=6144]",
         ("sglang", "mixed", 2, 6144, 7144, 3, 6144)),
        ("execute_context_1(888_788544)_generation_0(0)", ("vllm", "prefill", 1, 888, None, 0, 0)),
        ("execute_context_0(0)_generation_64(64)", ("vllm", "decode", 0, 0, 0, 64, None)),
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
         ("vllm", "decode", 0, 0, 0, 32, 55086)),
        ("execute_8192_context_9(sq8155sk8430sqsq1sqsk1)_generation_37(sq37sk5000sqsq37sqsk5000)",
         ("vllm", "mixed", 9, 8155, 8430, 37, 5000)),
        ("decode[bs=117/128 tok=117 d=117 sqsq=117 sqsk=239616 sk=239616]",
         ("", "decode", 0, 0, 0, 117, 239616)),
        ("prefill[bs=2 tok=14721 ctx=[7803, 6918]]", ("", "prefill", 2, 14721, None, 0, 0)),
        ("[Executor] _forward_step 7: 2 ctx reqs, 512 ctx tokens, 30 gen reqs",
         ("trtllm", "mixed", 2, 512, None, 30, None)),
        ("ProfilerStep#6", None), ("decode", None), ("step[IDLE bs=0]", None),
        ("execute_context_1024_generation_64", None),
    ],
)  # fmt: skip
def test_the_name_of_a_step_says_its_sizes(name, expected):
    assert sizes(name) == expected


def test_a_range_of_tensorrt_llm_is_of_the_phase_of_its_requests(report_of):
    from profilers.operators.attribution import phase_of

    names = {
        "[Executor] _forward_step 7: 2 ctx reqs, 0 gen reqs": "prefill",
        "[Executor] _forward_step 7: 2 ctx reqs, 512 ctx tokens, 0 gen reqs": "prefill",
        "[Executor] _forward_step 7: 0 ctx reqs, 64 gen reqs": "decode",
        "_forward_step: 1 ctx reqs, 3 gen reqs": "mixed",
    }
    assert {name: phase_of(name) for name in names} == names


def test_prefill_of_sglang_is_told_by_its_range_and_its_shapes(report_of):
    ran = what_ran([report_of(_PREFILL)])
    assert (ran.device.value, ran.engine.value) == ("AMD Instinct MI300X", "sglang")
    assert (ran.hidden.value, ran.layers.value, ran.vocabulary.value) == (4096, 36, 151936)
    assert (ran.dtype.value, ran.ranks.value) == ("bf16", 1)
    step = ran.steps["prefill"]
    assert (step.batch.value, step.length.value, step.context.value) == (15, 1024, 0)
    assert "15360" in step.batch.evidence, "the range is named"


def test_a_decode_in_a_graph_is_told_by_its_range_alone(report_of):
    sglang, vllm = (what_ran([report_of(name)]) for name in (_DECODE, _VLLM))
    assert (sglang.steps["decode"].batch.value, sglang.steps["decode"].context.value) == (32, 1024)
    assert sglang.layers.value == 36 and not sglang.layers_exact
    assert (vllm.engine.value, vllm.steps["decode"].context.value) == ("vllm", 1720)
    assert (vllm.layers.value, vllm.hidden.value) == (24, 2880), "of gpt-oss-20b"


def test_shapes_tell_the_phase_where_no_range_does(report_of):
    report = report_of(_H100)
    assert not report.kernels["phase"].notna().any()
    step = phased(report)
    assert step.kernels["phase"].dropna().unique().tolist() == ["prefill"]
    time_s = step.kernels.groupby("phase", observed=True)["duration_s"].sum()
    assert time_s["prefill"] == pytest.approx(31.76e-3, rel=1e-3), "inside the profiler's step"
    ran = what_ran([step])
    assert (ran.engine.value, ran.hidden.value, ran.layers.value) == ("hf", 1024, 24)
    facts = ran.steps["prefill"]
    assert (facts.batch.value, facts.length.value, facts.tokens.value) == (16, 559, 8944)


def test_a_report_with_phases_keeps_them(report_of):
    report = report_of(_DECODE)
    assert phased(report, "prefill") is report


def test_attention_over_one_new_token_is_decode(report_of):
    kernels = report_of(_H100).kernels.copy()
    attention = kernels["operator_class"] == "attention"
    one = "[[16,1,16,64],[16,560,16,64],[16,560,16,64]]"
    kernels["input_shapes"] = kernels["input_shapes"].astype(object)
    kernels.loc[attention, "input_shapes"] = one
    kernels["input_shapes"] = kernels["input_shapes"].astype("category")
    found = shape_facts(kernels)
    assert found.phase == "decode"
    assert (found.attention.new_tokens, found.attention.attended) == (1, 560)


def test_layers_are_the_launches_that_most_kernels_share():
    kernels = pd.DataFrame(
        {"name": ["a", "b", "c", "d", "e"], "count": [48, 24, 24, 24, 1]}
    ).astype({"name": "category"})
    assert layers_by_name(kernels, 1) == 24
    assert layers_by_name(kernels, 2) == 12
    assert layers_by_name(kernels.head(2), 1) == 0, "two kernels are no model"


def test_kernels_without_shapes_tell_nothing(report_of):
    report = report_of(_DECODE)
    bare = report.kernels.assign(phase=pd.Categorical([None] * len(report.kernels)))
    empty = dataclasses.replace(report, kernels=bare, ranges=report.ranges.head(0))
    assert shape_facts(bare).layers == 0 and phased(empty) is empty


def test_a_kept_run_says_what_it_was(tmp_path):
    from genz_core.types import Workload
    from profilers.schema import OPERATOR_COLUMNS, DeviceInfo, Measurement, PhaseTiming, table

    run = Measurement(
        "live", table(OPERATOR_COLUMNS, {}, 0),
        {"prefill": PhaseTiming("prefill", (1.0,)), "decode": PhaseTiming("decode", (0.1,))},
        DeviceInfo(name="a CPU"), "toy", "hf", Workload(2, 128, 4),
        {"dtype": "bfloat16", "layers": 6, "world_size": 2},
    )  # fmt: skip
    ran = what_was_kept(run)
    assert (ran.model.value, ran.engine.value, ran.device.value) == ("toy", "hf", "a CPU")
    assert (ran.layers.value, ran.ranks.value, ran.output.value) == (6, 2, 4)
    assert ran.steps["prefill"].length.value == 128 and ran.steps["decode"].context.value == 128


def test_each_step_of_the_profiler_is_of_its_own_phase(report_of):
    """The traced prefill, followed by the same kernels as a decode of one new token each."""
    import profilers

    report = report_of(_H100)
    one = report.kernels[report.kernels["step"].notna()]
    later = one.assign(
        start_s=one["start_s"] + 1.0, launch_s=one["launch_s"] + 1.0, range_id=1, step=1
    )
    attention = later["operator_class"] == "attention"
    later["input_shapes"] = later["input_shapes"].astype(object)
    later.loc[attention, "input_shapes"] = "[[16,1,16,64],[16,560,16,64],[16,560,16,64]]"
    later["nvtx_path"] = "ProfilerStep#7"
    kernels = pd.concat([one.astype(later.dtypes), later], ignore_index=True)
    names = ["nvtx_path", "input_shapes"]
    kernels = kernels.astype(dict.fromkeys(names, "category"))
    ranges = pd.concat([report.ranges.head(1)] * 2, ignore_index=True)
    ranges["name"] = pd.Categorical(["ProfilerStep#6", "ProfilerStep#7"])
    ranges["start_s"] += [0.0, 1.0]
    both = dataclasses.replace(report, kernels=kernels, ranges=ranges)
    for name in ("cut at the embedding", "asked"):
        found = phased(both, "decode" if name == "asked" else "")
        measured = profilers.measure_from([found])
        counts = {phase: len(timing.samples_s) for phase, timing in measured.phases.items()}
        assert counts == ({"decode": 2} if name == "asked" else {"prefill": 1, "decode": 1}), name
        for timing in measured.phases.values():
            assert timing.median_s == pytest.approx(31.76e-3, rel=1e-2)


# ------------------------------------------------------------------------------- several reports


def ranked(report, ranks=(None,), **facts):
    """Copies of a report, one per rank, each with its own facts."""
    return [
        dataclasses.replace(report, facts={**report.facts, "world_size": None, "rank": r, **facts})
        for r in ranks
    ]


def test_ranks_are_told_by_the_world_then_by_the_reports_then_by_their_devices(report_of):
    report = report_of(_DECODE)
    told = what_ran(ranked(report, (0, 1), world_size=8)).ranks
    assert (told.value, told.evidence) == (8, "its world_size")
    told = what_ran(ranked(report, (0, 1, 2))).ranks
    assert (told.value, told.evidence) == (3, "the ranks of its reports")
    kernels = report.kernels.assign(device=[at % 4 for at in range(len(report.kernels))])
    several = dataclasses.replace(report, kernels=kernels)
    told = what_ran(ranked(several)).ranks
    assert (told.value, told.evidence) == (4, "the devices whose kernels it holds")
    assert what_ran(ranked(report)).ranks is None


def with_operators(report, *operators):
    kernels = report.kernels.head(len(operators)).assign(operator=pd.Categorical(operators))
    return dataclasses.replace(report, kernels=kernels, ranges=report.ranges.head(0))


@pytest.mark.parametrize(
    ("operators", "engine"),
    [
        (("aten::mm", "vllm::unified_attention"), "vllm"),
        (("aten::pow", "aten::mean", "aten::rsqrt", "aten::silu"), "hf"),
        (("aten::pow", "aten::mean", "aten::rsqrt", "aten::mm"), None),
    ],
)
def test_operators_tell_the_engine_where_no_range_does(report_of, operators, engine):
    """A framework's own operators, or the parts of norms that no engine leaves unfused."""
    told = what_ran([with_operators(report_of(_DECODE), *operators)]).engine
    assert (told.value if told else None) == engine


def test_a_kept_run_that_says_little_is_told_little():
    from profilers.schema import OPERATOR_COLUMNS, Measurement, table

    ran = what_was_kept(Measurement("live", table(OPERATOR_COLUMNS, {}, 0), {}))
    assert (ran.device, ran.ranks, ran.engine, ran.layers, ran.output) == (None,) * 5
    assert ran.steps == {}
