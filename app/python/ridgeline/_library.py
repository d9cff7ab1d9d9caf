"""Models, systems and engines by name; the command line; the release."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genz_core.engine import EngineProfile
    from genz_core.types import Model, System


def model(
    name: str | Path | Mapping[str, Any],
    *,
    weights: str = "",
    moe_weights: str = "",
    kv: str = "",
    activations: str = "",
    compute: str = "",
) -> Model:
    """A model by name, Hugging Face id, path to a config.json, or the content of one.

    The number formats replace the checkpoint's own.

    >>> round(model("meta-llama/Llama-3.1-8B").parameters)
    8030261248

    Raises:
        RidgelineError: an unknown name, an architecture or format that nobody described.
    """
    import model_registry
    from app.scenario.local_files import model_source

    formats = {"weights": weights, "moe_weights": moe_weights, "kv": kv}
    formats |= {"activations": activations, "compute": compute}
    source = model_source(name)
    return model_registry.load(source, **{key: value or None for key, value in formats.items()})


def models(pattern: str = "*") -> list[str]:
    """The names of the models that ship, those that fit a pattern like "*llama*".

    >>> "meta-llama/Llama-3.1-8B" in models("*llama-3.1*")
    True
    """
    import model_registry

    return _fitting(model_registry.names(), pattern)


def system(name: str | Path | Mapping[str, Any]) -> System:
    """A system by slug or alias, path to a YAML, or the content of one.

    >>> system("H100 SXM").slug
    'h100-sxm5-80gb'

    Raises:
        RidgelineError: an unknown name, or a document that does not fit the schema.
    """
    import hardware_db
    from app.scenario.local_files import system_source

    return hardware_db.load(system_source(name))


def systems(pattern: str = "*") -> list[str]:
    """The slugs of all systems, those that fit a pattern like "h*"."""
    import hardware_db

    return _fitting(hardware_db.names(), pattern)


def engine(name: str = "generic") -> EngineProfile:
    """A serving engine by name, with what was measured of it.

    The name may carry a version: "vllm 0.9.0".

    Raises:
        UnknownEngine: no engine has that name, or its version cannot be read.

    >>> engine("vLLM").name
    'vllm'
    """
    import hardware_db

    return hardware_db.load_engine(name)


def main() -> None:
    """The command `ridgeline`."""
    # nearly all that a command makes lasts until its end: it is searched for garbage less often
    gc.set_threshold(50_000)
    from app.cli import main as command_line

    command_line()


def version() -> str:
    """The release that is installed."""
    import app

    return app.version()


def _fitting(names: Sequence[str], pattern: str) -> list[str]:
    folded = pattern.casefold()
    return [name for name in names if fnmatchcase(name.casefold(), folded)]
