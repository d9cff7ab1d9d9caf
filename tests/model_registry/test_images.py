"""Images of a request: tiles, tokens, and the encoder's work and time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.errors import InvalidValue
from genz_core.types import Parallelism, Step, Workload
from model_registry.graph.model import DescribedModel
from model_registry.spec import ImageGrid, ModelInputs
from tests.model_registry.test_encoders import products

H100 = hardware_db.load("h100")
QWEN: dict[str, Any] = {
    "model_type": "qwen2_5_vl",
    "vision_config": {
        "depth": 3, "hidden_size": 32, "num_heads": 4, "intermediate_size": 48,
        "out_hidden_size": 64, "fullatt_block_indexes": [1], "window_size": 112,
    },
    "text_config": {
        "model_type": "qwen2_5_vl_text", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
        "vocab_size": 320, "max_position_embeddings": 4096,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 4]},
    },
    "image_token_id": 300, "vision_start_token_id": 301, "vision_end_token_id": 302,
}  # fmt: skip


def with_images(name: Any, images: int, width: int = 1024, height: int = 1024) -> DescribedModel:
    model = model_registry.load(name)
    assert isinstance(model, DescribedModel)
    return model.with_inputs(ModelInputs(images, width, height))


def test_a_prompt_with_two_images_has_the_products_that_torch_counts() -> None:
    """A tiny Qwen2.5-VL: torch counts every pair of a prompt, the graph those within its mask."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from torch.utils.flop_counter import FlopCounterMode

    width, height = 224, 336
    patches = (width // 14) * (height // 14)
    theirs = transformers.AutoModelForImageTextToText.from_config(
        transformers.AutoConfig.for_model(**QWEN), attn_implementation="eager"
    ).eval()
    picture = [301, *[300] * (patches // 4), 302]
    ids = torch.tensor([[5] * 4 + picture * 2 + [5] * 2])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        theirs(
            input_ids=ids,
            pixel_values=torch.zeros(2 * patches, 3 * 2 * 14 * 14),
            image_grid_thw=torch.tensor([[1, height // 14, width // 14]] * 2),
            mm_token_type_ids=(ids == 300).long(),
            logits_to_keep=1,
        )
    model, tokens = with_images(QWEN, 2, width, height), ids.shape[1]
    assert float(model.prompt_tokens(10.0)) == tokens
    heads, dim, layers = 4, 16, 2
    unseen = tokens * (tokens - 1) / 2 * heads * 4 * dim * layers
    ours = products(model, Step.prefill(1.0, float(tokens)))
    assert ours + unseen == counter.get_total_flops()
    counted = sum(p.numel() for p in theirs.parameters())
    assert model.parameters + model.vision_parameters == counted


@pytest.mark.slow
def test_the_encoder_of_deepseek_ocr_has_the_products_that_torch_counts() -> None:
    """At full size on the meta device, with transformers' class of the same encoder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from torch.utils.flop_counter import FlopCounterMode

    settings = transformers.AutoConfig.for_model("unlimited_ocr")
    with torch.device("meta"):
        theirs = transformers.AutoModelForImageTextToText.from_config(
            settings, attn_implementation="eager"
        )
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            theirs.model.get_image_features(pixel_values=torch.zeros(1, 3, 1024, 1024))
    model = with_images("deepseek-ai/DeepSeek-OCR", 1)
    graph = model.encoder_graph(1.0, 4096.0, Parallelism())
    total = sum(
        float(op.flops) * op.count
        if op.operator_class == "attention"
        else 2.0 * float(op.dims["m"]) * float(op.dims["n"]) * float(op.dims["k"]) * op.count
        for op in graph.ops
        if op.kind in ("gemm", "convolution", "attention")
    )
    assert total == counter.get_total_flops()
    assert model.parameters + model.vision_parameters == sum(p.numel() for p in theirs.parameters())


def test_deepseek_ocr_has_its_published_size_and_tokens() -> None:
    """3.34 B, model card; 256 tokens per page in its base mode, 273 with separators."""
    model = with_images("deepseek-ai/DeepSeek-OCR", 1)
    assert model.parameters + model.vision_parameters == pytest.approx(3.336e9, rel=5e-3)
    assert float(model.prompt_tokens(0.0)) == 256 + 16 + 1


@pytest.mark.parametrize(
    ("name", "size", "tokens"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", (1036, 1036), 37 * 37),
        ("Qwen/Qwen2.5-VL-7B-Instruct", (14, 14), 4),
        ("Qwen/Qwen3-VL-8B-Instruct", (1024, 1024), 32 * 32),
        ("google/gemma-3-4b-pt", (3000, 200), 256),
        ("mistralai/Mistral-Small-3.1-24B-Base-2503", (1540, 1540), 55 * 56),
    ],
)
def test_images_become_the_tokens_that_processors_make(
    name: str, size: tuple[int, int], tokens: int
) -> None:
    assert float(with_images(name, 1, *size).prompt_tokens(0.0)) == tokens


def test_tiles_and_one_of_the_whole_where_there_are_several() -> None:
    grid = ImageGrid("tiles", 28, 4, side=336, most=16, thumbnail=True, image_tokens=2)
    assert grid.cut(336, 336).tokens == 144 + 2
    assert grid.cut(672, 672).tokens == 5 * 144 + 2
    assert grid.cut(1344, 336).views == 5


def test_a_larger_image_never_has_fewer_tokens_than_one_of_a_ninth_of_it() -> None:
    grids = [
        ImageGrid("native", 28, 4, least=4, most=16384),
        ImageGrid("longest", 28, 4, side=1540, row_tokens=1),
        ImageGrid("tiles", 28, 4, side=448, most=12, thumbnail=True),
    ]
    for grid in grids:
        for width, height in ((60, 60), (300, 200), (1000, 3000), (20000, 20000)):
            small, large = grid.cut(width // 3, height // 3), grid.cut(width, height)
            assert large.tokens >= small.tokens and large.patches > 0


def test_the_encoder_runs_in_the_prefill_alone_and_its_time_is_in_ttft() -> None:
    text = model_registry.load("Qwen/Qwen2.5-VL-7B-Instruct")
    seen = with_images("Qwen/Qwen2.5-VL-7B-Instruct", 2)
    tokens = float(seen.prompt_tokens(100.0))
    with_ = genz_core.estimate(seen, H100, Workload(4, tokens, 64))
    without = genz_core.estimate(text, H100, Workload(4, tokens, 64))
    rows = np.array([op.module.startswith("vision.") for op in with_.prefill.graph.ops])
    encoder = with_.prefill.operators_s[rows, 0].sum()
    assert encoder > 0 and with_.decode.flops[rows, 0].sum() == 0
    assert with_.ttft_s[0] - without.ttft_s[0] == pytest.approx(encoder, rel=1e-6)


def test_the_encoder_weighs_with_and_without_images() -> None:
    """8.29 B published parameters, 0.68 B of them the encoder's: 16.6 GB in 16 bits.

    llama.cpp has the encoder in a separate file, which a text server does not load.
    """
    text = model_registry.load("Qwen/Qwen2.5-VL-7B-Instruct")
    seen = with_images("Qwen/Qwen2.5-VL-7B-Instruct", 2)
    assert isinstance(text, DescribedModel)
    whole = 2 * (text.parameters + text.vision_parameters)
    assert whole == pytest.approx(16.58e9, rel=1e-3)
    load = Workload(1, 4000, 16)
    assert "weights hold its image encoder, 0.68B parameters" in text.notes
    for model in (text, seen):
        held = genz_core.estimate(model, H100, load).memory.weights_bytes[0]
        assert held == pytest.approx(whole)
        halves = genz_core.estimate(model, H100, load, Parallelism(tp=2)).memory.weights_bytes[0]
        assert held / 2 < halves < 1.05 * held / 2  # norms and projections are on both devices
    ops = text.graph(Step.decode(1.0, 10.0), Parallelism()).ops
    (tower,) = [op for op in ops if op.module == "vision"]
    assert tower.held_weight_bytes == 2 * text.vision_parameters
    assert not (tower.flops or tower.memory_bytes)
    mixture = model_registry.load("Qwen/Qwen2.5-VL-7B-Instruct", weights="q4_k_m")
    ops = mixture.graph(Step.decode(1.0, 10.0), Parallelism()).ops
    assert not any(op.module.startswith("vision") for op in ops)
    assert not any("encoder" in note for note in mixture.notes)


def test_a_prompt_in_pieces_encodes_its_images_once() -> None:
    model = with_images("Qwen/Qwen2.5-VL-7B-Instruct", 3)
    whole = Step.prefill(1.0, 4000.0)
    (group,) = whole.groups
    first = replace(group, new_tokens=1000.0, prompt=4000.0)
    rest = replace(group, new_tokens=3000.0, cached_tokens=1000.0, prompt=4000.0)

    def encoder_flops(*groups: Any) -> float:
        ops = model.graph(Step(groups), Parallelism()).ops
        return sum(float(op.flops) * op.count for op in ops if op.module.startswith("vision."))

    parts = encoder_flops(first) + encoder_flops(rest)
    assert parts == pytest.approx(encoder_flops(group), rel=1e-12)


MLLAMA: dict[str, Any] = {
    "model_type": "mllama",
    "text_config": {
        "model_type": "mllama_text_model", "hidden_size": 64, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
        "vocab_size": 320, "cross_attention_layers": [1, 3],
    },
    "vision_config": {
        "hidden_size": 32, "attention_heads": 4, "num_hidden_layers": 6, "num_global_layers": 2,
        "intermediate_size": 64, "vision_output_dim": 192, "image_size": 560,
    },
}  # fmt: skip


def test_an_image_beside_the_prompt_is_attended_to_in_every_step() -> None:
    """Llama 3.2 Vision: one token in the prompt, four tiles of 1,601 vectors for
    cross-attention.
    """
    model = with_images(MLLAMA, 1)
    assert float(model.prompt_tokens(10.0)) == 11
    ops = {op.name: op for op in model.graph(Step.decode(1.0, 11.0), Parallelism()).ops}
    across = ops["cross_attention"]
    assert float(across.flops) == 2 * (4 * 1601) * 64 * 2
    assert float(across.kv_read_bytes) == 4 * 1601 * 2 * 2 * 16 * 2.0
    assert float(ops["cross_kv_proj"].flops) == 0


def test_an_image_beside_the_prompt_has_the_products_that_torch_counts() -> None:
    """A tiny Llama 3.2 Vision; torch also makes the mask of its tiles by a product."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from torch.utils.flop_counter import FlopCounterMode

    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    eyes = {**MLLAMA["vision_config"], "image_size": 56,
            "intermediate_layers_indices": [0, 1, 2, 3, 4]}  # fmt: skip
    config = {**MLLAMA, "text_config": {**MLLAMA["text_config"], **marks}, "vision_config": eyes}
    settings = transformers.AutoConfig.for_model(**config, image_token_index=310)
    theirs = transformers.MllamaForConditionalGeneration._from_config(
        settings, attn_implementation="eager"
    ).eval()
    tokens, tiles, padded = 12, 4, 4 * 24
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        theirs(
            input_ids=torch.full((1, tokens), 5),
            pixel_values=torch.zeros(1, 1, tiles, 3, 56, 56),
            aspect_ratio_ids=torch.tensor([[8]]),
            aspect_ratio_mask=torch.ones(1, 1, tiles, dtype=torch.long),
            cross_attention_mask=torch.ones(1, tokens, 1, tiles),
            logits_to_keep=1,
        )
    model = with_images(config, 1, 56, 56)
    unseen = tokens * (tokens - 1) / 2 * 4 * 4 * 16 * 2
    ours = products(model, Step.prefill(1.0, float(tokens)))
    assert ours + unseen + 2 * padded**2 == counter.get_total_flops()
    counted = sum(p.numel() for p in theirs.parameters())
    assert model.parameters + model.vision_parameters == counted


def test_llama_3_2_vision_has_the_parameters_of_its_weights() -> None:
    """Hugging Face hub, safetensors parameter count of Llama-3.2-11B-Vision-Instruct."""
    model = model_registry.load("meta-llama/Llama-3.2-11B-Vision-Instruct")
    assert isinstance(model, DescribedModel)
    assert model.parameters + model.vision_parameters == 10_670_220_835


def test_layers_that_attend_to_an_image_alone_rest_without_one_and_stay_in_memory() -> None:
    model = with_images(MLLAMA, 0)
    ops = model.graph(Step.prefill(1.0, 16.0), Parallelism()).ops
    resting = [op for op in ops if op.layers == (1, 3)]
    assert resting and not any(np.any(op.flops) for op in resting)
    assert sum(float(op.memory_bytes) for op in resting) < 10  # the gates
    assert sum(float(op.held_weight_bytes) for op in resting) > 0


def test_a_model_without_eyes_refuses_images() -> None:
    with pytest.raises(InvalidValue, match="no image encoder"):
        with_images("meta-llama/Llama-3.1-8B", 1)


@pytest.mark.parametrize(
    ("size", "tiles"),
    [
        ((100, 100), 1),
        ((336, 336), 1),
        ((672, 672), 2 * 2),
        ((1024, 768), 4 * 3),  # enlarged 1.3125 times; 3 x 3 tiles would shrink it
        ((640, 2000), 2 * 6),  # 1.008 times
        ((9000, 900), 10 * 1),  # all shrink it, ten in a row the least
    ],
)
def test_images_of_llama_4_are_cut_as_its_processor_cuts_them(
    size: tuple[int, int], tiles: int
) -> None:
    """144 tokens per tile, and for the whole image if it has several; a separator after each tile;
    three at the ends: `_prompt_split_image` and `get_best_fit` of transformers.
    """
    model = with_images("meta-llama/Llama-4-Scout-17B-16E-Instruct", 1, *size)
    several = tiles * (144 + 1) if tiles > 1 else 0
    assert float(model.prompt_tokens(0.0)) == several + 144 + 3


def test_llama_4_has_the_published_size_with_its_encoder() -> None:
    """108,641,793,536 parameters: the safetensors index on the Hugging Face hub."""
    model = with_images("meta-llama/Llama-4-Scout-17B-16E-Instruct", 1)
    assert model.parameters + model.vision_parameters == 108_641_793_536
