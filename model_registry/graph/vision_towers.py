"""Image encoders of Qwen2-VL and 2.5-VL, Llama 4, InternVL and GLM-4V, from `vision_config`."""

from __future__ import annotations

from model_registry.graph.keys import Config
from model_registry.spec import ImageGrid, Projection, SamStage, VisionTower


def qwen2_vl(config: Config, text_hidden: int) -> VisionTower:
    """Qwen2-VL (arXiv:2409.12191): rotary positions, 2 x 2 patches merged after a norm."""
    hidden = config.integer("embed_dim", config.integer("hidden_size", 1280))
    heads, merge = config.integer("num_heads", 16), config.integer("spatial_merge_size", 2) ** 2
    wide, ratio = hidden * merge, config.value("mlp_ratio", 4)
    outputs = config.integer("hidden_size", text_hidden) if "embed_dim" in config else text_hidden
    return VisionTower(
        layers=config.integer("depth", 32),
        hidden=hidden,
        heads=heads,
        intermediate=int(hidden * ratio),
        patch=_patch(config),
        projections=(Projection(merge, wide, wide, outputs, norm=2 * hidden),),
        patches_per_token=merge,
        patch_bias=False,
        grid=_native(config, merge, least=4, most=16384),
    )


def qwen2_5_vl(config: Config, text_hidden: int) -> VisionTower:
    """Qwen2.5-VL (arXiv:2502.13923): gated layers, all but a few with windows of 8 x 8 patches."""
    hidden, heads = config.integer("hidden_size", 1280), config.integer("num_heads", 16)
    merge = config.integer("spatial_merge_size", 2) ** 2
    wide, outputs = hidden * merge, config.integer("out_hidden_size", text_hidden)
    full = config.integers("fullatt_block_indexes", (7, 15, 23, 31))
    side = config.integer("window_size", 112) // config.integer("patch_size", 14)
    return VisionTower(
        layers=config.integer("depth", 32),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size", 3420),
        patch=_patch(config),
        projections=(Projection(merge, wide, wide, outputs, norm=hidden),),
        patches_per_token=merge,
        gated=True,
        patch_bias=False,
        norm="rms",
        window=side * side,
        full_layers=len(full),
        grid=_native(config, merge, least=4, most=16384),
    )


def llama4(config: Config, text_hidden: int) -> VisionTower:
    """Llama 4: tiles of 336 x 336 and one of the whole image, 2 x 2 patches joined into one."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    side, patch = config.integer("image_size", 336), config.integer("patch_size", 14)
    inner = config.integer("projector_output_dim", 4096)
    middle = config.integer("projector_input_dim", 4096)
    outputs = config.integer("vision_output_dim", inner)
    each = (side // patch) ** 2
    return VisionTower(
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        patch=3 * patch**2,
        projections=(
            Projection(4, config.integer("intermediate_size"), middle, inner, bias=False),
            Projection(4, outputs, 0, text_hidden, bias=False),
        ),
        patches_per_token=4,
        patch_bias=False,
        positions=(each + 1) * hidden,
        extra_norms=2,
        class_tokens=1,
        grid=ImageGrid(
            "tiles", 2 * patch, 4, side=side, most=16, thumbnail=True, class_patches=1,
            image_tokens=3, tile_tokens=1, scaled=True,
        ),
    )  # fmt: skip


def internvl(config: Config, text_hidden: int) -> VisionTower:
    """InternVL: tiles of 448 x 448 and one of the whole image, a scale on each branch."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    (side, *_), (patch, *_) = (
        _pair(config, key, usual) for key, usual in (("image_size", 448), ("patch_size", 14))
    )
    each = (side // patch) ** 2
    return VisionTower(
        layers=config.integer("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        patch=3 * patch**2,
        projections=(Projection(4, 4 * hidden, text_hidden, text_hidden, norm=8 * hidden),),
        patches_per_token=4,
        positions=(each + 1) * hidden,
        rope=False,
        qkv_bias=config.flag("attention_bias", config.flag("qkv_bias")),
        scales=2,
        head_norms=config.flag("use_qk_norm", config.flag("qk_normalization")),
        wide_norms=True,
        extra_norms=0 if config.flag("use_mean_pooling", True) else 1,
        norm="rms" if config.text("norm_type") == "rms_norm" else "layer",
        class_tokens=1,
        grid=ImageGrid(
            "tiles", 2 * patch, 4, side=side, most=12, thumbnail=True, class_patches=1,
            image_tokens=2,
        ),
    )  # fmt: skip


def glm4v(config: Config, text_hidden: int) -> VisionTower:
    """GLM-4.1V to 4.6V: gated layers, a strided convolution, a gated projection after a norm."""
    hidden, heads = config.integer("hidden_size", 1536), config.integer("num_heads", 12)
    merge = config.integer("spatial_merge_size", 2) ** 2
    outputs = config.integer("out_hidden_size", text_hidden)
    side, patch = config.integer("image_size", 336), config.integer("patch_size", 14)
    bias = config.flag("attention_bias")
    wide = config.integer("intermediate_size", 13696)
    return VisionTower(
        layers=config.integer("depth", 24),
        hidden=hidden,
        heads=heads,
        intermediate=outputs,
        patch=_patch(config),
        projections=(
            Projection(merge, merge * hidden, 0, outputs),
            Projection(merge, outputs, 0, outputs, bias=False),
            Projection(merge, outputs, wide, outputs, bias=False, norm=2 * outputs, gated=True),
        ),
        patches_per_token=merge,
        gated=True,
        bias=bias,
        positions=(side // patch) ** 2 * hidden,
        norm="rms",
        extra_norms=2,
        grid=_native(config, merge, least=16, most=15000),
    )


def mllama(config: Config, text_hidden: int) -> VisionTower:
    """Llama 3.2 Vision: four tiles in one sequence, with states of several layers joined to the
    last.
    """
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads", 16)
    side, patch = config.integer("image_size", 448), config.integer("patch_size", 14)
    tiles, each = config.integer("max_num_tiles", 4), (side // patch) ** 2 + 1
    shapes = len(config.sequence("supported_aspect_ratios", range(8))) + 1
    outputs = config.integer("vision_output_dim", 7680)
    config.ignore("intermediate_layers_indices")
    by_tile = tiles * each * hidden * shapes + 2 * tiles * hidden * shapes
    alone, together = (
        config.integer("num_hidden_layers", 32),
        config.integer("num_global_layers", 8),
    )
    gates, padding = 3 + 2 * together, -each % 8
    return VisionTower(
        layers=alone + together,
        hidden=hidden,
        heads=heads,
        intermediate=config.integer("intermediate_size"),
        patch=config.integer("num_channels", 3) * patch**2,
        projections=(Projection(1, outputs, 0, text_hidden),),
        patches_per_token=1,
        patch_bias=False,
        qkv_bias=False,
        output_bias=False,
        rope=False,
        positions=each * hidden + by_tile + gates,
        extra_norms=2,
        class_tokens=1,
        blank=tiles * (1 + padding),
        padding=tiles * padding,
        grid=ImageGrid(
            "fixed", patch, 1, side=side, most=tiles, class_patches=1, image_tokens=1,
            across=True, padding=padding,
        ),
    )  # fmt: skip


def deepseek_ocr(config: Config, text_hidden: int) -> VisionTower:
    """DeepSeek-OCR (arXiv:2510.18234): SAM, a 16-fold compression, CLIP, both joined and projected.

    Views of 1024 x 1024, its base mode: 256 tokens, with a separator after each row and after the
    view.
    """
    parts = config.section("width")
    clip, sam = parts.section("clip-l-14-224"), parts.section("sam_vit_b")
    hidden, heads = clip.integer("width", 1024), clip.integer("heads", 16)
    narrow, side = sam.integer("width", 768), config.integer("image_size", 1024) // 16
    down = sam.integers("downsample_channels", (512, 1024))
    wide = hidden + down[-1]
    return VisionTower(
        layers=clip.integer("layers", 24),
        hidden=hidden,
        heads=heads,
        intermediate=4 * hidden,
        patch=0,
        projections=(Projection(1, wide, 0, text_hidden),),
        patches_per_token=1,
        rope=False,
        positions=(config.integer("positions", 257)) * hidden,
        extra_norms=1,
        class_tokens=1,
        separators=2 * text_hidden,
        before=SamStage(
            layers=sam.integer("layers", 12),
            hidden=narrow,
            heads=sam.integer("heads", 12),
            intermediate=sam.integer("mlp_dim", 4 * narrow),
            patch=3 * 16**2,
            side=side,
            window=sam.integer("window_size", 14),
            global_layers=len(sam.integers("global_attn_indexes", (2, 5, 8, 11))),
            neck=sam.integer("output_channels", 256),
            downsample=(down[0], down[-1]),
        ),
        grid=ImageGrid("fixed", 64, 16, side=16 * side, row_tokens=1, image_tokens=1),
    )


def _native(config: Config, merge: int, *, least: int, most: int) -> ImageGrid:
    """Images that keep their aspect ratio; least, most: token limits that the processors
    publish.
    """
    factor = config.integer("patch_size", 14) * config.integer("spatial_merge_size", 2)
    return ImageGrid("native", factor, merge, least=least, most=most)


def _patch(config: Config) -> int:
    """Pixels of a patch over channels and frames."""
    channels = config.integer("in_channels", config.integer("in_chans", 3))
    frames = config.integer("temporal_patch_size", 2)
    return channels * frames * config.integer("patch_size", 14) ** 2


def _pair(config: Config, key: str, usual: int) -> list[int]:
    """Sides that are written as a number or as a pair."""
    value = config.value(key, usual)
    return config.integers(key) if isinstance(value, list | tuple) else [config.integer(key, usual)]
