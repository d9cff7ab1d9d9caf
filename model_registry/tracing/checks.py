"""Limits on a config of any origin, and on the model that is built from it."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from genz_core.errors import InvalidValue

#: Largest value of a key, by the last word of its name; larger ones are a typing mistake or an
#: attack.
LIMITS: Mapping[str, float] = {
    "layers": 1_000,
    "layer": 1_000,
    "blocks": 1_000,
    "experts": 20_000,
    "heads": 20_000,
    "head": 20_000,
    "stages": 1_000,
}
LARGEST_INTEGER = 2.0**62
LARGEST_LIST = 2**16
LARGEST_CONFIG_BYTES = 4_000_000
LARGEST_MODULES = 60_000


def checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of `config` that holds plain JSON of bounded size.

    Raises:
        InvalidValue: not JSON, NaN, nested too deep, or a size beyond any model.
    """
    if not isinstance(config, Mapping):
        raise InvalidValue(f"a model config is a JSON object, not {type(config).__name__}")
    try:
        return _plain(config)
    except RecursionError:
        raise InvalidValue("the config refers to itself or is nested too deep") from None


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(config)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"the config is not plain JSON: {error}") from None
    if len(text) > LARGEST_CONFIG_BYTES:
        raise InvalidValue(f"the config has {len(text)} characters; no model config is that long")
    plain: dict[str, Any] = json.loads(text, object_hook=_number)
    _check_sizes(plain, "")
    return plain


def _number(entry: dict[str, Any]) -> Any:
    """Infinity for {"__float__": "Infinity"}, as transformers 5 writes it; otherwise the object
    itself.
    """
    text = entry.get("__float__")
    return float(text) if text in ("Infinity", "-Infinity", "NaN") else entry


def _check_sizes(value: Any, key: str) -> None:
    """Raise `InvalidValue` for numbers that no model has, at any depth."""
    if isinstance(value, dict):
        for name, entry in value.items():
            _check_sizes(entry, str(name))
    elif isinstance(value, list):
        if len(value) > LARGEST_LIST:
            raise InvalidValue(f"{key} lists {len(value)} entries; no model has that many")
        for entry in value:
            _check_sizes(entry, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value != value:
            raise InvalidValue(f"{key} is NaN, which no model has; correct the config")
        largest = math.inf if isinstance(value, float) else LARGEST_INTEGER
        limit = min(LIMITS.get(key.rpartition("_")[2], math.inf), largest)
        if abs(value) > limit:
            raise InvalidValue(
                f"{key} = {Decimal(value):.6g} is beyond any model (at most {limit:g}); "
                "correct the config"
            )


@contextlib.contextmanager
def bounded_modules() -> Iterator[None]:
    """Inside the block, raise `InvalidValue` for the first module beyond `LARGEST_MODULES`."""
    import torch

    original, made = torch.nn.Module.__init__, 0

    def counting(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        made += 1
        if made > LARGEST_MODULES:
            raise InvalidValue(
                f"the config makes more than {LARGEST_MODULES} modules; no model has that many"
            )
        original(self, *args, **kwargs)

    torch.nn.Module.__init__ = counting
    try:
        yield
    finally:
        torch.nn.Module.__init__ = original
