"""A format of a shipped model means the checkpoint published in it, if one ships."""

import pytest
import ridgeline

from model_registry.finding.catalog import shipped_models
from model_registry.quantization.published_tensors import published_precision
from tests.model_registry.shared_models import built

QUANTISED = [model for model in shipped_models().values() if model.bases]
DEEPSEEK = {
    model.id: model.config() for model in QUANTISED if "deepseek-ai/DeepSeek-V3" in model.bases
}


def test_the_published_nvfp4_of_deepseek_v3_spares_its_latent_projections() -> None:
    precision = published_precision(DEEPSEEK, "NVFP4")
    assert precision is not None and precision.kv == "fp8"
    assert precision.weight("attention.kv_b") == "bf16"
    assert precision.weight("experts.up") == "nvfp4"
    assert precision.source == "the quantisation of nvidia/DeepSeek-V3.1-NVFP4"


def test_the_model_loaded_in_that_format_has_that_map() -> None:
    loaded = built("deepseek-ai/DeepSeek-V3", weights="nvfp4").precision
    published = published_precision(DEEPSEEK, "nvfp4")
    assert published is not None
    assert dict(loaded.weights) == dict(published.weights)
    assert dict(loaded.by_layer) == dict(published.by_layer)


def test_a_format_that_nobody_published_has_no_map() -> None:
    assert published_precision({}, "nvfp4") is None
    assert published_precision(DEEPSEEK, "int4") is None


def test_the_bases_of_quantised_checkpoints_ship_too() -> None:
    assert len(QUANTISED) >= 20
    missing = {model.id: set(model.bases) - set(shipped_models()) for model in QUANTISED}
    assert not any(missing.values()), missing


def test_metas_fp8_checkpoint_weighs_what_vllm_loads_of_it() -> None:
    """56.7677 GiB on each of eight GPUs; with attention in 8 bits it would be 47.8.

    Source: dstackai/benchmarks, comparison/h100sxm5_vs_mi300x/raw_data/gpu-usage.md @85a2fe1.
    """
    answer = ridgeline.estimate("meta-llama/Llama-3.1-405B-FP8", system="h100", tp=8)
    assert answer.weights_bytes / 2**30 == pytest.approx(56.7677, rel=2e-3)
