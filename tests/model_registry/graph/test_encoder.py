"""The image encoder is a separate stage, not included in the decoder's figures."""

import json
from typing import Any

import pytest

import model_registry
from genz_core.errors import UnsupportedModel
from genz_core.graphs import Graph
from genz_core.types import Parallelism
from model_registry.finding.catalog import shipped_models
from model_registry.graph.model import DescribedModel
from tests.model_registry.shared_models import built

ONE = Parallelism()
MODELS = [
    "Qwen/Qwen3-VL-2B-Instruct",
    "Qwen/Qwen3.5-27B",
    "google/gemma-4-26B-A4B",
    "moonshotai/Kimi-K2.5",
    "nvidia/MiniMax-M3-NVFP4",
    "mistralai/Mistral-Small-3.1-24B-Base-2503",
]


def flops(graph: Graph, *names: str) -> float:
    return float(sum(op.flops * op.count for op in graph.ops if op.name in names))


def test_the_products_of_an_image_are_worked_out_by_hand() -> None:
    """Qwen3-VL-2B, 1,024 patches of 3 x 2 x 16 x 16 pixels through 24 layers of 1,024."""
    graph = built(MODELS[0]).encoder_graph(1, 1024, ONE)
    assert flops(graph, "patch_embed") == 1024 * (2 * 1024 * 1536 + 1024)
    # every patch attends to every other
    assert flops(graph, "attention") == 24 * 4 * 1024 * 1024 * 1024
    assert flops(graph, "up_proj") == 24 * 1024 * (2 * 1024 * 4096 + 4096)
    assert flops(graph, "projection_1_out") == 256 * (2 * 4096 * 2048 + 2048)


def test_pixtral_has_the_parameters_of_transformers_own_encoder_and_projector() -> None:
    config = shipped_models()["mistralai/Mistral-Small-3.1-24B-Base-2503"].config()
    config["text_config"]["num_hidden_layers"] = 1  # without the decoder
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from transformers.initialization import no_init_weights

    with torch.device("meta"), no_init_weights():
        model = transformers.AutoModelForImageTextToText.from_config(
            transformers.AutoConfig.for_model(**config)
        )
    counted = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if "vision_tower" in name or "multi_modal_projector" in name
    )
    assert built("mistralai/Mistral-Small-3.1-24B-Base-2503").vision_parameters == counted


def test_patches_are_merged_into_tokens_of_the_prompt() -> None:
    assert built(MODELS[0]).image_tokens(1024) == 256
    assert built("google/gemma-4-26B-A4B").image_tokens(2520) == 280


@pytest.mark.parametrize("name", MODELS)
def test_the_encoder_keeps_no_cache_and_is_not_in_the_decoder(name: str) -> None:
    model = built(name)
    graph = model.encoder_graph(2, 900, ONE)
    assert all(not op.held_kv_bytes and not op.kv_read_bytes for op in graph.ops)
    assert 0 < model.vision_parameters < 1e9 < model.parameters


@pytest.mark.parametrize("name", MODELS)
def test_images_do_not_see_each_other(name: str) -> None:
    model = built(name)
    one, four = (model.encoder_graph(images, 900, ONE) for images in (1, 4))
    assert flops(four, "attention") == 4 * flops(one, "attention")


def test_its_layers_are_split_over_tp() -> None:
    model = built(MODELS[0])
    whole, part = (model.encoder_graph(1, 1024, Parallelism(tp=tp)) for tp in (1, 4))
    for name in ("qkv_proj", "attention", "up_proj"):
        assert 4 * flops(part, name) == flops(whole, name)


def test_a_model_without_eyes_says_so() -> None:
    with pytest.raises(UnsupportedModel, match="no image encoder"):
        built("meta-llama/Llama-3.1-8B").encoder_graph(1, 256, ONE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "switches"),
    [
        ("qwen3_vl", {}),
        ("qwen3_vl_moe", {}),
        ("qwen3_5", {}),
        ("qwen3_5_moe", {}),
        ("gemma3", {"vision_config": {"vision_use_head": False}}),
        ("gemma4", {"vision_config": {"use_clipped_linears": False}}),
        ("minimax_m3_vl", {}),
        ("kimi_k25", {}),
        ("qwen2_vl", {}),
        ("qwen2_5_vl", {}),
        ("llama4", {}),
        ("internvl", {}),
        ("glm4v_moe", {}),
    ],
)
def test_vision_parameters_are_those_of_transformers_model(
    model_type: str, switches: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    config = transformers.AutoConfig.for_model(model_type, **switches)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    counted = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if any(part in name for part in ("visual", "vision", "projector", "mm_"))
    )
    written = model_registry.load(json.loads(config.to_json_string(use_diff=False)))
    assert isinstance(written, DescribedModel) and written.vision_parameters == counted
