"""Names in results of benchmarks, looked up among models, systems, engines and formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import hardware_db
import model_registry
from genz_core.errors import LONGEST_NAME, RidgelineError, UnknownName
from genz_core.precision import canonical
from genz_core.types import Model
from model_registry.finding.lookup import only_begins

#: Endings of a checkpoint's name that tell its weight format, and no other model.
_FORMAT = re.compile(
    r"[-_.](fp8|nvfp4|mxfp4|bf16|fp16|int4|int8|(?:i?q\d[\w]*|f16|bf16))(?:[-_]dynamic)?$", re.I
)
#: Words of tools for "as the checkpoint says".
_AS_STORED = ("auto", "none", "default", "unquantized")


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that is known.  weights: format that its name in the file ends with, else ""."""

    name: str
    evidence: str
    weights: str = ""


def model(stated: str | None) -> NamedModel | None:
    """The known model of a name, a path or a file name; None where there is none."""
    for name, weights in _spellings(stated or ""):
        try:
            if only_begins(name, model_registry.load(name).name):
                continue
        except RidgelineError:
            continue
        evidence = f"the file names {stated}"
        if weights:
            evidence += f", which is {name} in {weights}"
        return NamedModel(name, evidence, weights)
    return None


def _spellings(stated: str) -> Iterator[tuple[str, str]]:
    """A name, its last parts as of a path, and the same without the format at its end."""
    stated = stated.strip().rstrip("/").removesuffix(".gguf")[:LONGEST_NAME]
    parts = [part for part in stated.split("/") if part]
    tried = dict.fromkeys([stated, "/".join(parts[-2:]), *parts[-1:]])
    tried.pop("", None)
    yield from ((name, "") for name in tried)
    for name in tried:
        if match := _FORMAT.search(name):
            weights = weight_format(match[1])
            if weights:
                yield name[: match.start()], weights


def why_no_model(stated: str | None) -> str:
    """Why the model must be given."""
    if not stated:
        return "the file does not name the model"
    return f"the file names {_short(stated)}, which is no model that is known here{_near(stated)}"


def _near(stated: str) -> str:
    try:
        model_registry.load(stated)
    except UnknownName as error:
        return f" (near: {', '.join(error.near[:3])})" if error.near else ""
    except RidgelineError:
        return ""
    return ""


def same_model(name: str, priced: Model) -> bool:
    """Whether a name means the model that is priced."""
    try:
        return str(model_registry.load(name).name) == priced.name
    except RidgelineError:
        return False


def system(stated: str | None) -> str:
    """The slug of a device's name, "" where it is unknown."""
    if not stated:
        return ""
    try:
        return hardware_db.load(stated).slug
    except RidgelineError:
        return ""


def why_no_system(stated: str | None) -> str:
    """Why the system must be given."""
    if not stated:
        return "the file does not say on which hardware it ran"
    try:
        hardware_db.load(stated)
    except UnknownName as error:
        near = f" (near: {', '.join(error.near[:3])})" if error.near else ""
        return f"the file names {_short(stated)}, which is no system that is known here{near}"
    except RidgelineError as error:
        return f"the file names {_short(stated)}: {error}"
    return ""


def engine(stated: str | None) -> str:
    """The name of an engine with a profile, "" where there is none."""
    try:
        return hardware_db.engine_facts(stated).id if stated else ""
    except RidgelineError:
        return ""


def why_no_engine(stated: str | None) -> str:
    """Why the engine is asked for."""
    if not stated:
        return "the file does not name the serving engine"
    return f"the file names the engine {_short(stated)}, which has no profile here"


def weight_format(stated: str | None) -> str:
    """The number format of a tool's word for it; "" for none, and for "auto"."""
    if not stated or stated.casefold() in _AS_STORED:
        return ""
    for word in (stated, stated.split()[0], stated.replace(" - ", "_").replace(" ", "_")):
        try:
            return canonical(word)
        except RidgelineError:
            continue
    return ""


def _short(stated: str) -> str:
    return repr(stated if len(stated) <= 80 else f"{stated[:80]}…")
