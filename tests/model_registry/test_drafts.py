"""Draft heads: published parameters, what they share with their target, and refusals."""

import pytest

import model_registry
from genz_core.errors import InvalidValue, UnsupportedModel
from genz_core.models.acceptance import Acceptance
from genz_core.types import Parallelism, Step
from model_registry.drafts import (
    eagle,
    modules,
    mtp_parameters,
    prediction_module,
    speculation,
)
from tests.model_registry.shared_models import built, traced
from tests.rules import for_every

#: Weights of whole checkpoints (hub, safetensors count): the main model, the module, and for GLM
#: also copies of token table and head.
CHECKPOINTS = {"zai-org/GLM-4.5": 358.3e9, "zai-org/GLM-4.5-Air": 110.5e9}
#: Parameters of EAGLE heads (README of SafeAILab/EAGLE).
EAGLE_HEADS = {
    "meta-llama/Llama-2-7b-hf": 0.24e9,
    "meta-llama/Llama-2-13b-hf": 0.37e9,
    "meta-llama/Llama-2-70b-hf": 0.99e9,
    "meta-llama/Meta-Llama-3-8B": 0.25e9,
}


def blocks(draft):
    return [type(block).__name__ for layer in draft.spec.layers for block in layer.blocks]


def op(draft, name, tp=1):
    ops = draft.graph(Step.decode(8.0, 100.0), Parallelism(tp=tp)).ops
    return next(one for one in ops if one.name == name)


# ------------------------------------------------------------------------------- modules


def test_the_module_of_deepseek_v3_has_its_published_parameters():
    """11.5 B unique ones, 1.5 B active with the head of 0.9 B (README_WEIGHTS.md of the model)."""
    target = built("deepseek-ai/DeepSeek-V3")
    module = prediction_module(target)
    assert module.parameters == pytest.approx(11.5e9, rel=0.01)
    head = target.spec.vocabulary * target.spec.hidden
    assert module.active_parameters + head == pytest.approx(1.5e9, rel=0.08)
    assert modules(target) == 1


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_main_model_and_module_are_the_whole_checkpoint(name):
    target = built(name)
    tables = 2 * target.spec.vocabulary * target.spec.hidden
    total = target.parameters + prediction_module(target).parameters + tables
    assert total == pytest.approx(CHECKPOINTS[name], rel=2e-3)


@pytest.mark.parametrize(
    ("name", "expected", "count"),
    [
        ("zai-org/GLM-4.5", ["Attention", "Mixture"], 1),
        ("zai-org/GLM-5.2", ["LatentAttention", "Mixture"], 1),
        ("Qwen/Qwen3.5-397B-A17B", ["Attention", "Mixture"], 1),
        ("Qwen/Qwen3.5-27B", ["Attention", "FeedForward"], 1),
        ("XiaomiMiMo/MiMo-7B-Base", ["Attention", "FeedForward"], 1),
        ("stepfun-ai/Step-3.7-Flash", ["Attention", "FeedForward"], 3),
        ("deepseek-ai/DeepSeek-V4-Pro", ["CompressedAttention", "Mixture"], 1),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", ["Attention", "Mixture"], 1),
    ],
)
def test_modules_are_laid_out_as_their_family_does(name, expected, count):
    assert blocks(prediction_module(built(name))) == expected
    assert modules(built(name)) == count


@for_every(lambda: [name for name in model_registry.names() if modules(built(name))])
def test_every_announced_module_has_a_graph_and_far_fewer_parameters(name):
    target = built(name)
    module = prediction_module(target)
    assert 0 < module.parameters < 0.06 * target.parameters
    assert 0 < module.active_parameters < 0.12 * target.active_parameters
    reached = module.graph(Step.decode(8.0, 100.0), Parallelism())
    assert all(op.layers or op.module for op in reached.ops) and reached.layers <= 2


def test_a_module_that_shares_an_indexers_choice_has_one_of_its_own():
    (layer,) = prediction_module(built("zai-org/GLM-5.2")).spec.layers
    assert layer.blocks[0].indexer.owner


def test_token_table_and_head_are_the_targets():
    module = prediction_module(built("deepseek-ai/DeepSeek-V3"))
    for name in ("embedding", "lm_head"):
        assert op(module, name).held_weight_bytes == 0 and op(module, name).weight_bytes > 0


def test_modules_are_counted_apart_from_the_model():
    facts = model_registry.describe("deepseek-ai/DeepSeek-V3")
    assert facts["mtp_parameters"] == pytest.approx(11.5e9, rel=0.01)
    assert model_registry.describe("meta-llama/Llama-3.1-8B")["mtp_parameters"] == 0
    three = built("stepfun-ai/Step-3.7-Flash")
    assert mtp_parameters(three) == 3 * prediction_module(three).parameters


def test_a_quantisation_that_leaves_the_module_out_keeps_it_in_16_bit():
    inside = prediction_module(built("deepseek-ai/DeepSeek-V3")).precision
    outside = prediction_module(built("nvidia/DeepSeek-V3.1-NVFP4")).precision
    assert inside.weight("experts.up") == "fp8_block"
    assert outside.weight("experts.up") == "bf16"


def test_the_decoder_itself_is_counted_without_its_module():
    assert built("deepseek-ai/DeepSeek-V3").parameters == pytest.approx(671.0e9, rel=1e-3)


# ------------------------------------------------------------------------------- EAGLE heads


@pytest.mark.parametrize("name", EAGLE_HEADS)
@pytest.mark.parametrize("version", [1, 2])
def test_eagle_heads_have_their_published_parameters(name, version):
    assert eagle(built(name), version).parameters == pytest.approx(EAGLE_HEADS[name], rel=0.02)


def test_an_eagle_3_head_fuses_three_states_and_reads_state_and_token():
    head = eagle(built("meta-llama/Llama-3.1-8B"), 3)
    assert op(head, "state_fusion").dims["k"] == 3 * 4096
    assert op(head, "qkv_proj").dims["k"] == 2 * 4096
    assert op(head, "lm_head").dims["n"] == 32_000 and op(head, "lm_head").held_weight_bytes > 0


def test_the_head_of_a_mixture_is_as_wide_as_the_experts_of_a_token():
    assert op(eagle(built("Qwen/Qwen3-30B-A3B")), "down_proj").dims["k"] == 8 * 768


def test_joins_are_copied_and_layers_split_over_tp():
    head = eagle(built("meta-llama/Llama-3.1-8B"))
    assert op(head, "state_fusion", tp=4).dims["n"] == 4096
    assert op(head, "down_proj", tp=4).dims["k"] == 14336 / 4


@pytest.mark.parametrize(
    ("method", "target", "drafts"),
    [
        ("mtp", "stepfun-ai/Step-3.7-Flash", "prediction module of stepfun-ai/Step-3.7-Flash"),
        ("eagle", "meta-llama/Llama-3.1-8B", "EAGLE-3 of meta-llama/Llama-3.1-8B"),
        ("ngram", "meta-llama/Llama-3.1-8B", None),
    ],
)
def test_a_method_finds_what_drafts(method, target, drafts):
    found = speculation(built(target), method, Acceptance((0.8, 0.6)))
    assert (found.draft and found.draft.name) == drafts
    assert found.modules == (3 if method == "mtp" else 1) and found.draft_tokens == 2


def test_a_draft_model_drafts_for_a_larger_one():
    small = built("meta-llama/Llama-3.2-1B")
    found = speculation(built("meta-llama/Llama-3.1-70B"), "draft_model", Acceptance((0.8,)), small)
    assert found.draft is small


# ------------------------------------------------------------------------------- refusals


def test_a_draft_model_must_be_given():
    with pytest.raises(InvalidValue, match="draft_model needs a draft model"):
        speculation(built("meta-llama/Llama-3.1-8B"), "draft_model", Acceptance((0.8,)))


def test_a_model_without_modules_says_so():
    with pytest.raises(UnsupportedModel, match=r"Llama-3.1-8B has no multi-token-prediction"):
        prediction_module(built("meta-llama/Llama-3.1-8B"))


def test_a_trace_has_no_head():
    with pytest.raises(UnsupportedModel, match="is traced"):
        eagle(traced("meta-llama/Llama-3.1-8B"))
