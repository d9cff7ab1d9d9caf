"""Looking up names in benchmark results: models, systems, engines and formats."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import hardware_db
import model_registry
from app.measuring.completion import Filling
from genz_core.errors import LONGEST_NAME, RidgelineError, UnknownName
from genz_core.precision import FORMATS, canonical
from model_registry.finding.lookup import only_begins

#: Endings of a checkpoint's name that state its weight format, not another model.
_FORMAT = re.compile(
    r"[-_.](?:UD[-_])?(fp8|nvfp4|mxfp4|bf16|fp16|int4|int8|(?:i?q\d[\w]*|f16|bf16))"
    r"(?:[-_]dynamic)?$",
    re.I,
)
#: Suffixes that a driver adds to the name of a device.
_DRIVER = re.compile(r"\s*\([^()]*\)$")
#: Words that tools use for "as in the checkpoint".
_AS_STORED = ("auto", "none", "default", "unquantized")


@dataclass(frozen=True, slots=True)
class Named:
    """The meaning of a name in a file.

    name: that is priced.  identity: equal for two names of one thing.  weights: format that a
    model's name ends with, otherwise "".
    """

    name: str
    identity: str
    evidence: str
    weights: str = ""


#: For each kind of name: the look-up, why it may be missing from a file, and what an unknown one is
#: called.
_KINDS: Mapping[str, tuple[Callable[[str], str], str, str]] = {
    "model": (
        lambda name: model_registry.load(name).name,
        "the file does not name the model",
        "not a known model",
    ),
    "system": (
        lambda name: hardware_db.load(name).slug,
        "the file does not say on which hardware it ran",
        "not a known system",
    ),
    "engine": (
        lambda name: hardware_db.engine_facts(name).id,
        "the file does not name the serving engine",
        "not an engine with a profile",
    ),
}


def look_up(kind: str, stated: str | None) -> Named | None:
    """The meaning of a name in a file, None where it is unknown or absent.

    kind: "model" (a name, a path or a file name), "system" or "engine".
    """
    if kind == "model":
        return _model(stated)
    found = ""
    for name in (stated, _DRIVER.sub("", stated)) if stated else ():
        try:
            found = _KINDS[kind][0](name)
            break
        except RidgelineError:
            continue
    family = found.partition("-")[0] if kind == "engine" else found
    return Named(found, family, f"the file names {stated}") if found else None


def why_missing(kind: str, stated: str | None) -> str:
    """Why a name must be given: the file's own name is unknown, or it states none."""
    find, unstated, unknown = _KINDS[kind]
    if not stated:
        return unstated
    near: Sequence[str] = ()
    try:
        find(stated)
    except UnknownName as error:
        near = error.near[:3]
    except RidgelineError as error:
        return f"the file names {_short(stated)}: {error}"
    words = f" (near: {', '.join(near)})" if near else ""
    return f"the file names {_short(stated)}, which is {unknown}{words}"


def _model(stated: str | None) -> Named | None:
    for name, weights in _spellings(stated or ""):
        try:
            found = str(model_registry.load(name).name)
            if only_begins(name, found):
                continue
        except RidgelineError:
            continue
        evidence = f"the file names {stated}"
        if weights:
            evidence += f", which is {name} in {weights}"
        return Named(name, found, evidence, weights)
    return None


def _spellings(stated: str) -> Iterator[tuple[str, str]]:
    """Spellings to look up: a name, the last parts of a path, and both without a format suffix,
    each with that format.
    """
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


#: A release or build within a tool's version text, such as an image's tag.
_RELEASE = re.compile(r"(?<![\w.])(v?\d+\.\d+(?:\.\w+)*|b\d{3,})(?![\w.])")


def engine_version(engine: str, stated: str | None, date: str | None) -> Filling | None:
    """The version of an engine according to a file, None where it is unknown.

    The tag of an image counts if the image is named after the engine.  Without a version, the month
    of the file is used if the engine behaved differently then.

    stated: version or image in the file's words.  date: of the file, ISO 8601.
    """
    family = engine.partition("-")[0]
    image, _, tag = (stated or "").rpartition(":")
    if (found := _RELEASE.search(tag)) and (not image or family in image.casefold()):
        version = found[1].removeprefix("v")
        return Filling("engine_version", version, f"the file states {_short(stated or '')}")
    month = (date or "")[:7]
    if re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", month) and hardware_db.ran_otherwise(engine, month):
        words = f"the file is of {(date or '')[:10]} and names no version of it"
        return Filling("engine_version", month, words, inferred=True)
    return None


def weight_format(stated: str | None) -> str:
    """The number format that a tool's word means; "" for none and for "auto"."""
    if not stated or stated.casefold() in _AS_STORED:
        return ""
    stated = re.sub(r"^UD[-_]", "", stated, flags=re.IGNORECASE)
    # Q4_K_XL is a Q4_K_M with more bits in some tensors
    mixture = re.sub(r"_xl$", "_m", stated, flags=re.IGNORECASE)
    joined = stated.replace(" - ", "_").replace(" ", "_")
    for word in (stated, mixture, stated.split()[0], joined):
        try:
            return canonical(word)
        except RidgelineError:
            continue
    return ""


#: Largest change of the bits per weight by mixtures of formats and tensors in 16 bits.
_MIXED = 1.4


def holds(name: str, bits: float) -> bool:
    """Whether weights of a format may have this many bits each; True for an unknown format."""
    return not name or 1.0 / _MIXED <= bits / bits_of(name) <= _MIXED


def bits_of(name: str) -> float:
    """Bits per weight in a format, by any of its names."""
    return float(FORMATS[canonical(name)].bits)


def nearest_format(bits: float) -> str:
    """The format whose bits per weight are nearest to a number, mixtures first."""
    named = (name for name in FORMATS if name.startswith("q") or FORMATS[name].bits > 8.0)
    return min(named, key=lambda name: abs(FORMATS[name].bits - bits))


def _short(stated: str) -> str:
    return repr(stated if len(stated) <= 80 else f"{stated[:80]}…")
