"""Count the parameters of every shipped model with transformers, without weights.

    python tests/model_registry/count_on_meta.py [--only NAME] [--output FILE]

Each configuration builds transformers' own model on PyTorch's meta device; the counts go to
tests/golden/meta_parameters.json with transformers' version.  Only text models are counted: without
vision towers and their projectors, and without multi-token-prediction layers.  Encoders and
encoder-decoders are built as the class that their configuration names.
Types that transformers does not know are omitted.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "model_registry" / "configs"
GOLDEN = ROOT / "tests" / "golden" / "meta_parameters.json"

#: Types that transformers builds as another type with the same modules.
SAME_MODULES = {"kimi_k2": "deepseek_v3", "deepseek_ref": "deepseek_v4", "mimo": "qwen2"}
#: Text configurations that transformers only knows inside a vision-language one.
TEXT_OF = {"minimax_m3": "minimax_m3_vl", "step3p7": "step3p7"}
NOT_TEXT = ("visual", "vision", "mm_projector", "multi_modal_projector", "audio", "patch_merge")


def count(config: dict[str, Any]) -> int:
    """Parameters of the text model, with tied ones counted once."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    facts = {key: value for key, value in config.items() if not key.startswith("_")}
    for key in ("quantization_config", "hf_quant_config"):
        facts.pop(key, None)
    kind = facts.pop("model_type")
    if kind in TEXT_OF and "text_config" not in facts:
        kind, facts = TEXT_OF[kind], {"text_config": facts, "vision_config": {}}
    if "text_config" in facts:
        facts["text_config"] = {
            key: value
            for key, value in facts["text_config"].items()
            if key not in ("quantization_config", "dtype", "torch_dtype")
        }
    parsed = AutoConfig.for_model(SAME_MODULES.get(kind, kind), **facts)
    parsed._experts_implementation = "eager"
    named_class = _class_of_no_decoder({**facts, "model_type": kind})
    text_only = "vision_config" not in facts and type(parsed) in AutoModelForCausalLM._model_mapping
    maker = AutoModelForCausalLM if text_only else AutoModelForImageTextToText
    with torch.device("meta"):
        if named_class:
            parsed._attn_implementation = "eager"
            model = named_class(parsed)
        else:
            model = maker.from_config(parsed, attn_implementation="eager")
    model.tie_weights()
    named = dict(model.named_parameters(remove_duplicate=True))
    return sum(
        parameter.numel()
        for name, parameter in named.items()
        if not any(part in name for part in NOT_TEXT)
    )


def _class_of_no_decoder(facts: dict[str, Any]) -> Any:
    """transformers' class named by a config that is not a decoder, else None."""
    import transformers

    from model_registry.kinds import other_kind

    names = facts.get("architectures") or [""]
    return getattr(transformers, names[0], None) if other_kind(facts) else None


def main() -> None:
    import transformers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="count only names that contain this")
    parser.add_argument("--output", type=Path, default=GOLDEN, help="file to renew")
    asked = parser.parse_args()
    only, output = asked.only.casefold(), asked.output
    found = json.loads(output.read_text())["parameters"] if output.exists() else {}
    failed = {}
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text())
        name = config["_id"]
        if only not in name.casefold():
            continue
        found.pop(name, None)
        try:
            found[name] = count(config)
        except Exception as error:  # noqa: BLE001  (a type it does not know, for any reason)
            failed[name] = f"{type(error).__name__}: {str(error)[:120]}"
        print(name, found.get(name, failed.get(name)), flush=True)
    document = {
        "source": "sum of parameters of transformers' own model on the meta device",
        "transformers": transformers.__version__,
        "parameters": dict(sorted(found.items())),
    }
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(found)} counted, {len(failed)} not")


if __name__ == "__main__":
    main()
