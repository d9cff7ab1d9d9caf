"""docs/models.md: the shipped models as a Markdown table.

`python -m model_registry.reports.models_page > docs/models.md` renews it.
"""

from __future__ import annotations

import re
from collections import Counter

import model_registry
from genz_core.common.cells import markdown_row
from model_registry.finding.catalog import ShippedModel, shipped_models

_HEAD = """# Shipped models

{count} models, each a small file in `model_registry/configs` that holds the facts of its
published configuration and names its source. Any other Hugging Face `config.json` of a known
`model_type` can be given by path or pasted. A GGUF file can be given by path: only its header is
read, which holds the sizes and the format of each tensor. `hf:OWNER/NAME`, or the address of a
model's page, fetches the config.json from the Hugging Face hub once, in five seconds at most,
unless the hub's cache holds one. This needs only the extra `hub`, not PyTorch. Names from
Ollama's and LM Studio's libraries (`llama3.1:8b`, `qwen2.5-coder:32b-instruct-q4_K_M`) work as
they are.

Parameters are those of the text model: vision towers and multi-token-prediction layers are
counted separately. *Active* parameters are those that process one token, including the input
embedding. *Checked* says whether the count is within half a percent of a published one, which the
model's file cites (`published`), equals that of transformers' own model on the meta device
(`transformers`), or neither (`no`).

| model | model_type | parameters | active | weights | checked |
| --- | --- | ---: | ---: | --- | --- |
"""

_RESTS_ON = """
## Sources of each model

The configuration is the publisher's own file, a copy of it in public code, the defaults that
transformers documents for it, or sizes that a paper or a model card states. Some configurations
were not looked up and use the sizes of a related model. The count is checked as above.

"""
_EACH = """
| model | configuration | count |
| --- | --- | --- |
"""
#: Patterns of a file's source that show where the configuration is from; the first match counts.
_ORIGINS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a sibling's sizes, not looked up again", re.compile("not looked up again")),
    ("copied in public code", re.compile(r"cop(y|ies|ied)|public code")),
    ("transformers' defaults", re.compile("^defaults of transformers")),
    ("the publisher's config.json", re.compile(r"^config\.json of \S+, published")),
    ("a paper, card or documentation", re.compile("")),
)
_CHECKS = ("published", "transformers", "no")


def _origin(source: str) -> str:
    """Where a configuration is from, in the words of `_ORIGINS`."""
    return next(words for words, pattern in _ORIGINS if pattern.search(source))


def _checked(shipped: ShippedModel) -> str:
    """What a model's parameter count was compared with."""
    return "published" if shipped.published else "transformers" if shipped.confirmed else "no"


def _rests_on() -> str:
    """How many models have each kind of source, then each model's source in its file's words."""
    models = shipped_models().values()
    counts = Counter((_origin(model.source), _checked(model)) for model in models)
    lines = [("configuration", *_CHECKS), ("---", *["---:"] * len(_CHECKS))]
    lines += [
        (words, *(str(counts[words, check] or "") for check in _CHECKS)) for words, _ in _ORIGINS
    ]
    each = ((f"`{m.id}`", m.source, _citation(m)) for m in models)
    tables = ("\n".join(map(markdown_row, rows)) for rows in (lines, each))
    return f"{_RESTS_ON}{next(tables)}\n{_EACH}{next(tables)}\n"


def _citation(shipped: ShippedModel) -> str:
    """What the count agrees with: a published count, transformers' own, or nothing."""
    if shipped.published:
        return str(shipped.published["citation"])
    return "transformers' own model" if shipped.confirmed else "not checked"


def _size(parameters: float) -> str:
    """A parameter count in four digits: 124.4M, 8.030B, 1.026T."""
    for unit, scale in (("T", 1e12), ("B", 1e9)):
        if parameters >= scale:
            return f"{parameters / scale:.4g}{unit}"
    return f"{parameters / 1e6:.4g}M"


def _row(shipped: ShippedModel) -> str:
    model = model_registry.load(shipped.id)
    formats = {*model.precision.weights.values(), *model.precision.by_layer.values()}
    cells = (
        f"`{shipped.id}`",
        shipped.model_type,
        _size(model.parameters),
        _size(model.active_parameters),
        ", ".join(sorted(formats)),
        _checked(shipped),
    )
    return markdown_row(cells)


def markdown() -> str:
    """The page: one row per model, then the source of each."""
    models = shipped_models().values()
    rows = "\n".join(map(_row, models)) + "\n"
    return _HEAD.format(count=len(models)) + rows + _rests_on()


def main() -> None:
    """Print the page."""
    print(markdown(), end="")


if __name__ == "__main__":
    main()
