"""Derive the shipped entries again: `python -m model_registry.modules.shipped_entries`."""

from __future__ import annotations

from model_registry.modules.derivation import derive_class, derive_model
from model_registry.modules.store import SHIPPED, save_entry

LEAVES = (
    *(f"torch.nn.modules.activation.{n}" for n in ("SiLU", "GELU", "ReLU", "Sigmoid", "Tanh")),
    "torch.nn.modules.activation.Softmax",
    "torch.nn.modules.conv.Conv1d",
    "torch.nn.modules.linear.Linear",
    "torch.nn.modules.normalization.LayerNorm",
    "torch.nn.modules.normalization.RMSNorm",
    "torch.nn.modules.sparse.Embedding",
)
MODELS = ("llama", "gpt2", "mixtral", "qwen3", "deepseek_v3")


def main() -> None:
    """Derive every leaf, and the modules of some families at their default sizes."""
    for path in LEAVES:
        save_entry(derive_class(path), SHIPPED)
    for model_type in MODELS:
        for entry in derive_model({"model_type": model_type}):
            if entry.module not in LEAVES:
                save_entry(entry, SHIPPED)


if __name__ == "__main__":
    main()
