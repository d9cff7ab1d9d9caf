"""Models, systems and engines by name; the command line; the release."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genz_core.engine import EngineProfile
    from genz_core.graphs import Model
    from genz_core.systems import System


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
        RidgelineError: an unknown name, or an unsupported architecture or format.
    """
    import model_registry
    from app.scenario.local_files import model_source

    formats = {"weights": weights, "moe_weights": moe_weights, "kv": kv}
    formats |= {"activations": activations, "compute": compute}
    source = model_source(name)
    return model_registry.load(source, **{key: value or None for key, value in formats.items()})


def models(pattern: str = "*") -> list[str]:
    """The names of the shipped models that match a pattern like "*llama*".

    >>> "meta-llama/Llama-3.1-8B" in models("*llama-3.1*")
    True
    """
    import model_registry

    return _fitting(model_registry.names(), pattern)


def system(
    name: str | Path | Mapping[str, Any], *, network: str | Path | Mapping[str, Any] | None = None
) -> System:
    """A system by slug or alias, path to a YAML, or the content of one.

    network: an ASTRA-sim network file, or its content, whose links replace the system's; the
    system must be one that ships.

    >>> system("H100 SXM").slug
    'h100-sxm5-80gb'

    Raises:
        RidgelineError: an unknown name, a document that does not fit the schema, or a file that is
            not a network file.
    """
    import hardware_db
    from app.scenario.local_files import system_source

    found = hardware_db.load(system_source(name))
    if network is None:
        return found
    from app.exchange.network import with_links
    from hardware_db import system_files

    whole = with_links(found.slug, network)
    return system_files.complete(whole, str(whole["id"])).system()


def systems(pattern: str = "*") -> list[str]:
    """The slugs of all systems that match a pattern like "h*"."""
    import hardware_db

    return _fitting(hardware_db.names(), pattern)


def engine(name: str = "generic") -> EngineProfile:
    """A serving engine by name, with its measured corrections.

    The name may carry a version: "vllm 0.9.0".

    Raises:
        UnknownEngine: no engine has that name, or its version cannot be read.

    >>> engine("vLLM").name
    'vllm'
    """
    import hardware_db

    return hardware_db.load_engine(name)


def modules(pattern: str = "*") -> list[str]:
    """The module classes with formulas that match a pattern like "*SiLU"."""
    from model_registry.modules import entry_names

    return _fitting(entry_names(), pattern)


def module(name: str) -> dict[str, Any]:
    """The formulas of a module class: FLOPs, bytes and memory by symbols, and their source.

    Args:
        name: full path or bare name of a class; a class or a call of torch, such as
            "torch.nn.Linear(d, 4*d)", is derived where torch is installed.

    >>> module("SiLU")["formulas"]["read_bytes"]
    '2*{batch}*{new_tokens}*{features}'

    Raises:
        RidgelineError: a class without formulas, from which none can be derived.
    """
    from model_registry.modules import class_entry, entry_names, read_entry

    bare = {full.rpartition(".")[2] for full in entry_names()}
    shipped = name in bare or name in entry_names()
    return dict((read_entry(name) if shipped else class_entry(name)).to_json())


def schema(name: str = "") -> dict[str, Any] | list[str]:
    """The JSON schema of a document that commands exchange: arch, modules, ops or step.

    Returns:
        The schema; without a name, the list of documents.

    >>> schema()
    ['arch', 'modules', 'ops', 'step']

    Raises:
        RidgelineError: no document has that name.
    """
    from model_registry.reports import schemas

    return dict(schemas.schema(name)) if name else list(schemas.names())


def main() -> None:
    """The command `ridgeline`."""
    # nearly all that a command makes lasts until its end: a short one never searches for garbage
    gc.set_threshold(500_000)
    # pydantic would search every installed package for plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    from app.cli import main as command_line

    try:
        command_line()
    finally:
        gc.freeze()  # the program ends: what it made is not searched once more


def version() -> str:
    """The release that is installed."""
    import app

    return app.version()


def _fitting(names: Sequence[str], pattern: str) -> list[str]:
    folded = pattern.casefold()
    return [name for name in names if fnmatchcase(name.casefold(), folded)]
