"""docs/models.md: the shipped models as a Markdown table.

`python -m model_registry.reports.models_page > docs/models.md` renews it.
"""

from __future__ import annotations

import model_registry
from model_registry.finding.catalog import ShippedModel, shipped_models

_HEAD = """# Models that ship

{count} models, each a small file in `model_registry/configs` that holds the facts of its
published configuration and names its source. Any other Hugging Face `config.json` of a known
`model_type` can be given by path or pasted, and so can a GGUF file: its header holds the sizes and
the format of each tensor, and nothing else of it is read. `hf:OWNER/NAME`, or the address of a
model's page, asks the Hugging Face hub for a config.json once, for five seconds at most, unless its
cache holds one; the extra `hub` is enough for that, PyTorch is not needed. Names of
Ollama's and LM Studio's libraries (`llama3.1:8b`, `qwen2.5-coder:32b-instruct-q4_K_M`) work as
they are.

Parameters are those of the text model: vision towers and multi-token-prediction layers are
counted apart. *Active* ones are what a token passes, the input embedding included. *Checked*
says whether the count is within half a percent of a published one, which the model's file
cites, or equal to that of transformers' own model on the meta device, or neither.

| model | model_type | parameters | active | weights | checked |
| --- | --- | ---: | ---: | --- | --- |
"""


def _size(parameters: float) -> str:
    """A parameter count in four digits: 124.4M, 8.030B, 1.026T."""
    for unit, scale in (("T", 1e12), ("B", 1e9)):
        if parameters >= scale:
            return f"{parameters / scale:.4g}{unit}"
    return f"{parameters / 1e6:.4g}M"


def _row(shipped: ShippedModel) -> str:
    model = model_registry.load(shipped.id)
    formats = {*model.precision.weights.values(), *model.precision.by_layer.values()}
    checked = "published" if shipped.published else "transformers" if shipped.confirmed else "no"
    cells = (
        f"`{shipped.id}`",
        shipped.model_type,
        _size(model.parameters),
        _size(model.active_parameters),
        ", ".join(sorted(formats)),
        checked,
    )
    return f"| {' | '.join(cells)} |"


def markdown() -> str:
    """The page, one row a model."""
    models = shipped_models().values()
    return _HEAD.format(count=len(models)) + "\n".join(map(_row, models)) + "\n"


def main() -> None:
    """Print the page."""
    print(markdown(), end="")


if __name__ == "__main__":
    main()
