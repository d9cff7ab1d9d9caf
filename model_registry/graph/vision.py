"""Image encoders: from the `vision_config` of a multi-modal model to a `VisionTower`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from genz_core.errors import InvalidValue
from model_registry.graph.keys import Config
from model_registry.graph.vision_towers import (
    deepseek_ocr,
    glm4v,
    internvl,
    llama4,
    mllama,
    qwen2_5_vl,
    qwen2_vl,
)
from model_registry.spec import ImageGrid, ModelSpec, Projection, VisionTower

#: Keys of the encoder that are outside `vision_config`.
_OUTER = ("spatial_merge_size", "multimodal_projector_bias")
Tower = Callable[[Config, int], VisionTower]


def with_vision(spec: ModelSpec, config: Config) -> ModelSpec:
    """The spec with its image encoder, or with a note that this encoder is not described."""
    section = config.raw.get("vision_config")
    if not isinstance(section, Mapping) or not section:
        return spec
    tower = _TOWERS.get(str(config.raw.get("model_type")))
    if tower is None:
        note = "the image encoder is not described; image tokens count as part of the prompt"
        return replace(spec, notes=(*spec.notes, note))
    outer = {key: config.raw[key] for key in _OUTER if key in config.raw}
    try:
        vision = tower(Config({**outer, **section}, f"{config.name} vision"), spec.hidden)
    except ZeroDivisionError:
        raise InvalidValue(
            f"{config.name}: the sizes of vision_config do not form an encoder; a size that others "
            "are divided by is 0"
        ) from None
    return replace(spec, vision=vision)


def _qwen3_vl(config: Config, text_hidden: int) -> VisionTower:
    """Qwen3-VL and Qwen3.5: one merger, and further ones that feed early decoder layers."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    merge = config.integer("spatial_merge_size", 2) ** 2
    wide, outputs = hidden * merge, config.integer("out_hidden_size", text_hidden)
    last = Projection(merge, wide, wide, outputs, norm=2 * hidden)
    early = Projection(merge, wide, wide, outputs, norm=2 * wide)
    pixels = config.integer("in_channels", 3) * config.integer("temporal_patch_size", 2)
    return VisionTower(
        layers=config.integer("depth"),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        patch=pixels * config.integer("patch_size") ** 2,
        projections=(last, *[early] * len(config.sequence("deepstack_visual_indexes"))),
        patches_per_token=merge,
        positions=config.integer("num_position_embeddings") * hidden,
        grid=ImageGrid("native", config.integer("patch_size") * 2, merge, least=64, most=16384),
    )


def _kimi_k25(config: Config, text_hidden: int) -> VisionTower:
    """MoonViT of Kimi K2.5: learned positions of a 64 x 64 grid, 2 x 2 patches a token."""
    hidden = config.integer("vt_hidden_size", config.integer("hidden_size", 1152))
    heads = config.integer("vt_num_attention_heads", config.integer("num_attention_heads", 16))
    merge = _area(config, "merge_kernel_size", (2, 2))
    grid = config.integer("init_pos_emb_height", config.integer("pos_emb_height", 64))
    grid *= config.integer("init_pos_emb_width", config.integer("pos_emb_width", 64))
    return VisionTower(
        layers=config.integer("vt_num_hidden_layers", config.integer("num_hidden_layers", 27)),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer(
            "vt_intermediate_size", config.integer("intermediate_size", 4304)
        ),
        patch=3 * config.integer("patch_size", 14) ** 2,
        projections=(
            Projection(merge, hidden * merge, hidden * merge, text_hidden, norm=2 * hidden),
        ),
        patches_per_token=merge,
        positions=grid * hidden,
        extra_norms=1,
    )


def _area(config: Config, key: str, default: tuple[int, int]) -> int:
    """Patches under the kernel whose (rows, columns) the key `key` gives."""
    sides = config.integers(key, default)
    if len(sides) != 2 or min(sides) < 1:
        raise InvalidValue(f"{config.name}: {key} is {sides!r}, not rows and columns")
    return sides[0] * sides[1]


def _gemma4(config: Config, text_hidden: int) -> VisionTower:
    """Gemma 4: gated layers between two norms, patches averaged, one projection."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    merge = config.integer("pooling_kernel_size", 3) ** 2
    return VisionTower(
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        head_dim=config.integer("head_dim", 0),
        intermediate=config.integer("intermediate_size"),
        patch=3 * config.integer("patch_size") ** 2,
        projections=(Projection(merge, hidden, 0, text_hidden, bias=False),),
        patches_per_token=merge,
        gated=True,
        bias=False,
        patch_bias=False,
        positions=2 * config.integer("position_embedding_size") * hidden,
        norm="rms",
        norms="both",
        head_norms=True,
        grid=ImageGrid("native", config.integer("patch_size") * 3, merge, least=280, most=280),
    )


def _minimax_m3(config: Config, text_hidden: int) -> VisionTower:
    """MiniMax-M3: rotary positions, a projection of each patch, and one of 2 x 2 joined patches."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    joined = config.section("img_token_compression_config")
    merge = joined.integer("spatial_merge_size", config.integer("spatial_merge_size", 2)) ** 2
    frames = joined.integer("temporal_patch_size", config.integer("temporal_patch_size", 2))
    width = config.integer("projection_dim", text_hidden)
    return VisionTower(
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        patch=config.integer("num_channels", 3) * frames * config.integer("patch_size") ** 2,
        projections=(
            Projection(1, hidden, width, text_hidden),
            Projection(merge, text_hidden * merge, width, text_hidden),
        ),
        patches_per_token=merge,
        patch_bias=False,
        extra_norms=1,
    )


def _gemma3(config: Config, text_hidden: int) -> VisionTower:
    """SigLIP in Gemma 3: 64 x 64 patches, averaged to 16 x 16 tokens, one projection."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    side = config.integer("image_size", 896) // config.integer("patch_size", 14)
    merge = max(side * side // 256, 1)
    return VisionTower(
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        patch=3 * config.integer("patch_size", 14) ** 2,
        projections=(Projection(merge, hidden, 0, text_hidden, bias=False, norm=hidden),),
        patches_per_token=merge,
        positions=side * side * hidden,
        extra_norms=1,
        grid=ImageGrid(
            "fixed",
            config.integer("image_size", 896) // 16,
            merge,
            side=config.integer("image_size", 896),
        ),
    )


def _pixtral(config: Config, text_hidden: int) -> VisionTower:
    """Pixtral in Mistral 3: rotary positions, 2 x 2 patches joined to one, then two layers."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    merge = config.integer("spatial_merge_size", 2) ** 2
    bias = config.flag("multimodal_projector_bias")
    joined = Projection(merge, merge * hidden, 0, hidden, bias=False, norm=hidden)
    last = Projection(merge, hidden, text_hidden, text_hidden, bias=bias)
    return VisionTower(
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        head_dim=config.integer("head_dim", 0),
        intermediate=config.integer("intermediate_size"),
        patch=config.integer("num_channels", 3) * config.integer("patch_size") ** 2,
        projections=(joined, last),
        patches_per_token=merge,
        gated=True,
        bias=False,
        patch_bias=False,
        norm="rms",
        extra_norms=1,
        grid=ImageGrid(
            "longest",
            config.integer("patch_size") * config.integer("spatial_merge_size", 2),
            merge,
            side=config.integer("image_size", 1540),
            row_tokens=1,
        ),
    )


_TOWERS: Mapping[str, Tower] = {
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "kimi_k25": _kimi_k25,
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "minimax_m3_vl": _minimax_m3,
    "mistral3": _pixtral,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "llama4": llama4,
    "internvl": internvl,
    "internvl_chat": internvl,
    "glm4v": glm4v,
    "glm4v_moe": glm4v,
    "glm46v": glm4v,
    "mllama": mllama,
    "deepseek_vl_v2": deepseek_ocr,
}
