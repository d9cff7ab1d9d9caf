"""Encoders are counted and priced as one pass over their input."""

from typing import Any

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.errors import InvalidParallelism
from genz_core.models.model_kinds import model_kind
from genz_core.operators import mutual_pairs
from genz_core.types import Parallelism, Step, Workload
from model_registry.graph.model import DescribedModel

H100 = hardware_db.load("h100")
#: Tiny configs by type, their class, and their differing keys.
TINY: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 96, "vocab_size": 320, "max_position_embeddings": 40,
}  # fmt: skip
CLASSES = {
    "bert": ("BertModel", "BertForMaskedLM", "BertForPreTraining",
             "BertForSequenceClassification", "BertForTokenClassification",
             "BertForQuestionAnswering"),
    "roberta": ("RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification"),
    "xlm-roberta": ("XLMRobertaModel", "XLMRobertaForSequenceClassification"),
    "camembert": ("CamembertForMaskedLM",),
    "distilbert": ("DistilBertModel", "DistilBertForMaskedLM"),
    "mpnet": ("MPNetModel", "MPNetForMaskedLM"),
    "xlm-roberta-xl": ("XLMRobertaXLForMaskedLM",),
    "roberta-prelayernorm": ("RobertaPreLayerNormForMaskedLM",),
    "megatron-bert": ("MegatronBertForMaskedLM",),
    "ernie": ("ErnieForMaskedLM",),
    "data2vec-text": ("Data2VecTextForMaskedLM",),
    "modernbert": ("ModernBertModel", "ModernBertForMaskedLM",
                   "ModernBertForSequenceClassification", "ModernBertForTokenClassification",
                   "ModernBertForQuestionAnswering", "ModernBertForMultipleChoice"),
}  # fmt: skip
CASES = [(kind, name) for kind, names in CLASSES.items() for name in names]


def tiny(kind: str) -> dict[str, Any]:
    """A config of a type, with its own key names."""
    if kind == "modernbert":
        marks = ("pad", "bos", "eos", "cls", "sep")
        return {"model_type": kind, **TINY, **{f"{mark}_token_id": 0 for mark in marks}}
    if kind != "distilbert":
        return {"model_type": kind, **TINY}
    return {"model_type": kind, "dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 96,
            "vocab_size": 320, "max_position_embeddings": 40}  # fmt: skip


def transformers_model(config: dict[str, Any], name: str, device: str = "meta") -> Any:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    settings = transformers.AutoConfig.for_model(**config)
    settings._attn_implementation = "eager"
    with torch.device(device):
        made = getattr(transformers, name)(settings)
    made.tie_weights()
    return made.eval()


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_encoder_has_the_parameters_of_the_class_that_its_config_names(
    kind: str, name: str
) -> None:
    config = tiny(kind)
    counted = sum(p.numel() for p in transformers_model(config, name).parameters())
    model = model_registry.load({**config, "architectures": [name]})
    assert model_kind(model) == "encoder"
    assert model.parameters == counted


@pytest.mark.parametrize(
    ("kind", "name"), [("bert", "BertModel"), ("bert", "BertForMaskedLM"),
                       ("xlm-roberta", "XLMRobertaForSequenceClassification"),
                       ("modernbert", "ModernBertForMaskedLM"),
                       ("modernbert", "ModernBertForSequenceClassification")],
)  # fmt: skip
def test_the_products_of_an_encoder_are_those_that_torch_counts(kind: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    config = tiny(kind)
    made = transformers_model(config, name, "cpu")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        made(input_ids=torch.full((2, 24), 5))
    model = model_registry.load({**config, "architectures": [name]})
    assert products(model, Step.prefill(2.0, 24.0)) == counter.get_total_flops()


def products(model: Any, step: Step) -> float:
    """FLOPs of matrix products, attention and convolutions, without biases, as torch counts."""
    total = 0.0
    for op in model.graph(step, Parallelism()).ops:
        if op.kind in ("gemm", "convolution"):
            d = op.dims
            total += 2.0 * float(d["m"]) * float(d["n"]) * float(d["k"]) * op.count
        elif op.operator_class == "attention":
            total += float(op.flops) * op.count
    return total


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("BAAI/bge-m3", 567_754_752),
        ("BAAI/bge-large-en-v1.5", 335_141_888),
        ("answerdotai/ModernBERT-base", 149_655_232),
        ("google/embeddinggemma-300m", 302_863_104),
    ],
)
def test_shipped_encoders_have_the_parameters_of_their_weights(name: str, published: int) -> None:
    assert model_registry.load(name).parameters == published


def test_modernbert_sees_all_in_every_third_layer_and_its_neighbours_in_the_others() -> None:
    config = {"model_type": "modernbert", **TINY, "local_attention": 8}
    ops = model_registry.load(config).graph(Step.prefill(1.0, 32.0), Parallelism()).ops
    pairs = sorted((op.count, float(op.dims["pairs"])) for op in ops if op.kind == "attention")
    assert pairs == [(1, 1024.0), (2, float(mutual_pairs(32, 9)))]


def test_a_pair_is_seen_from_both_sides_inside_a_window() -> None:
    for tokens in (1, 2, 7, 40):
        for window in (0, 1, 5, 99):
            at = np.arange(tokens)
            apart = np.abs(at[:, None] - at)
            seen = (apart <= (window - 1) / 2).sum() if window else tokens**2
            assert mutual_pairs(tokens, window) == seen


def test_an_encoder_has_a_latency_and_no_time_between_tokens() -> None:
    model = model_registry.load("BAAI/bge-m3")
    one = genz_core.estimate(model, H100, Workload(32, 512, 128))
    assert np.isnan(one.tpot_s[0]) and np.isnan(one.output_tokens_per_s[0])
    assert one.e2e_s[0] == one.ttft_s[0] > one.bound_ttft_s[0]
    assert one.sequences_per_s[0] == pytest.approx(32 / one.ttft_s[0])
    assert one.memory.kv_bytes[0] == 0.0


def test_an_encoder_is_split_by_tensors_and_not_by_stages() -> None:
    model = model_registry.load("BAAI/bge-m3")
    whole, half = (
        sum(np.sum(op.flops) * op.count for op in model.graph(Step.prefill(4, 512), split).ops
            if op.kind == "gemm" and "head" not in op.module)
        for split in (Parallelism(), Parallelism(tp=2))
    )  # fmt: skip
    assert half == pytest.approx(whole / 2, rel=1e-3)
    with pytest.raises(InvalidParallelism, match="encoder model"):
        genz_core.estimate(model, H100, Workload(4, 512, 1), Parallelism(pp=2))


def test_an_encoder_under_load_serves_no_more_than_compute_allows() -> None:
    model = model_registry.load("BAAI/bge-m3")
    users = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
    served = genz_core.serve(model, H100, genz_core.Traffic(512, 128, concurrency=users))
    flops = sum(np.sum(op.flops) * op.count for op in model.graph(
        Step.prefill(1, 512), Parallelism()).ops)  # fmt: skip
    assert np.all(np.diff(served.output_tokens_per_s) > -1e-9)
    assert np.all(served.output_tokens_per_s < H100.peak("bf16") / flops)
    assert np.isnan(served.tpot_s).all()


def test_a_decoder_that_ends_in_scores_is_read_once() -> None:
    llama = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256,
        "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 64,
    }  # fmt: skip
    name = "LlamaForSequenceClassification"
    counted = sum(p.numel() for p in transformers_model(llama, name).parameters())
    model = model_registry.load({**llama, "architectures": [name]})
    assert isinstance(model, DescribedModel)
    assert (model_kind(model), model.parameters) == ("encoder", counted)


def test_a_decoder_that_sees_both_sides_is_an_encoder() -> None:
    gemma = {
        "model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 8,
        "intermediate_size": 128, "use_bidirectional_attention": True,
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    model = model_registry.load(gemma)
    ops = model.graph(Step.prefill(1.0, 32.0), Parallelism()).ops
    pairs = {float(op.dims["pairs"]) for op in ops if op.kind == "attention"}
    assert model_kind(model) == "encoder" and pairs == {1024.0, float(mutual_pairs(32, 9))}
