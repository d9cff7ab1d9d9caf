"""Diffusion language models: passes over prompt and answer, blocks of tokens, no cache."""

from dataclasses import replace

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.errors import InvalidValue, UnsupportedModel
from genz_core.graphs import Model
from genz_core.models.diffusion import Denoising
from genz_core.models.model_kinds import model_kind
from genz_core.types import Step, Workload
from model_registry.graph.model import DescribedModel
from model_registry.spec import ModelInputs
from tests.model_registry.test_encoders import products, transformers_model

H100 = hardware_db.load("h100")


def refined(steps: int, block: int) -> Model:
    model = model_registry.load("GSAI-ML/LLaDA-8B-Instruct")
    assert isinstance(model, DescribedModel)
    return model.with_inputs(ModelInputs(denoising=Denoising(steps, block)))


def test_a_pass_has_the_products_that_torch_counts() -> None:
    """A tiny model as Llama's class of the same layers: every pair of tokens, logits of every
    token.
    """
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    llama = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 320,
             "num_attention_heads": 4, "intermediate_size": 96}  # fmt: skip
    theirs = transformers_model(llama, "LlamaForCausalLM", "cpu")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        theirs(input_ids=torch.full((2, 24), 5))
    model = model_registry.load(
        {"model_type": "llada", "architectures": ["LLaDAModelLM"], "d_model": 64, "n_heads": 4,
         "n_layers": 3, "mlp_hidden_size": 96, "vocab_size": 320, "max_sequence_length": 64}
    )  # fmt: skip
    assert products(model, Step.prefill(2.0, 24.0)) == counter.get_total_flops()
    assert model.parameters == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize(
    ("name", "published"),
    [("GSAI-ML/LLaDA-8B-Instruct", 8.02e9), ("Dream-org/Dream-v0-Instruct-7B", 7.62e9)],
)
def test_shipped_ones_have_their_published_size(name: str, published: float) -> None:
    model = model_registry.load(name)
    assert model_kind(model) == "diffusion"
    assert model.parameters == pytest.approx(published, rel=5e-3)


def test_llada_2_passes_the_parameters_of_its_model_card() -> None:
    """6.1 B of 100 B per token, model card of LLaDA2.0-flash; the token table is counted too."""
    model = model_registry.load("inclusionAI/LLaDA2.0-flash")
    assert model_kind(model) == "diffusion"
    assert model.active_parameters == pytest.approx(6.1e9, rel=0.01)


def test_the_answer_takes_its_passes_and_the_first_block_its_share() -> None:
    one = genz_core.estimate(refined(64, 32), H100, Workload(1, 128, 128))
    each = one.decode.total_s[0]
    assert one.prefill.total_s[0] == pytest.approx(each)
    assert one.ttft_s[0] - one.engine.host_request_s == pytest.approx(16 * each)
    assert one.e2e_s[0] - one.engine.host_request_s == pytest.approx(64 * each)
    assert one.memory.kv_bytes[0] == 0.0


def test_fewer_passes_take_less_time_and_a_pass_grows_with_the_answer() -> None:
    few, many = (
        genz_core.estimate(refined(steps, 32), H100, Workload(1, 128, 128)).e2e_s[0]
        for steps in (32, 128)
    )
    assert few < many
    lengths = genz_core.estimate(refined(64, 32), H100, Workload(1, 128, np.array([64, 512])))
    assert lengths.decode.total_s[1] > lengths.decode.total_s[0]


def test_what_is_not_modelled_is_refused_in_a_sentence() -> None:
    model = refined(0, 32)
    with pytest.raises(UnsupportedModel, match="not modelled"):
        genz_core.serve(model, H100, genz_core.Traffic(128, 128, concurrency=4))
    with pytest.raises(InvalidValue, match="not a diffusion model"):
        llama = model_registry.load("meta-llama/Llama-3.1-8B")
        assert isinstance(llama, DescribedModel)
        llama.with_inputs(replace(ModelInputs(), denoising=Denoising(8)))


def test_rwkv_keeps_a_state_of_one_size_and_no_cache() -> None:
    """64 x 64 per head in 32 bits, for any context."""
    model = model_registry.load("fla-hub/rwkv7-1.5B-world")
    for context in (10.0, 1e5):
        ops = model.graph(Step.decode(1.0, context), genz_core.Parallelism()).ops
        held = sum(float(np.max(op.held_kv_bytes)) * op.count for op in ops)
        assert held == 24 * 32 * 64 * 64 * 4


def test_bitnet_keeps_its_products_in_two_bits_and_its_table_in_sixteen() -> None:
    model = model_registry.load("microsoft/bitnet-b1.58-2B-4T")
    held = genz_core.estimate(model, H100, Workload(1, 16, 1)).memory.weights_bytes[0]
    table = 128256 * 2560
    assert held == pytest.approx(table * 2 + (model.parameters - table) / 4, rel=2e-3)
