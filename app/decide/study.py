"""Technology studies: chips x formats x techniques, each priced as one batch.

A study is a mapping (YAML on the command line):

    title       title of tables and charts
    question    what all combinations share, as keywords of `ridgeline.estimate`
    chips       each with a name, and system, memory, stacks, gb_per_stack or factors (peak, link,
                bandwidth, capacity, process, power_cap_w) of `app.decide.chips`
    formats     each with a name, and weights, kv, activations ... instead of the question's
    techniques  each with a name, and anything of the question (speculation, acceptance, sparse
                models); `config` replaces keys of the model's config: low-rank caches, windows
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from app.decide.chips import Chip, chip_system
from app.question.query import Sources, ask
from app.scenario import results
from app.scenario.known_systems import find_system
from genz_core.errors import InvalidValue, RidgelineError, UnknownName
from genz_core.limits import brief
from model_registry.finding.sources import find_checkpoint

_AXES = ("chips", "formats", "techniques")
_KEYS = ("title", "question", *_AXES)
_CHIP = tuple(field.name for field in fields(Chip))
_MOST = 400
_FIGURES = (
    "ttft_s", "tpot_s", "bound_tpot_s", "output_tokens_per_s_per_device", "usd_per_million_tokens",
    "joules_per_token", "memory_bytes_per_device",
)  # fmt: skip
_RESOURCES = ("compute", "memory", "communication", "overhead")


@dataclass(frozen=True, repr=False, eq=False)
class Study(results.ResultTable):
    """A row per combination: chip, format, technique, status, message, figures, and the limiting
    resource of each phase.
    """

    title: str
    combinations: tuple[dict[str, Any], ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return list(self.combinations)

    def to_dict(self) -> dict[str, Any]:
        """The document that `ridgeline study --json` prints."""
        return {"title": self.title, "rows": self.rows}

    def __repr__(self) -> str:
        names = ("chip", "format", "technique", "status", *_FIGURES[:5])
        shown = [{name: row.get(name) for name in names} for row in self.rows]
        return f"{self.title}\n{results.first_rows(shown, len(shown))}"


def study(asked: Mapping[str, Any], sources: Sources = dict) -> Study:
    """Price every combination of a study; one that cannot run is a row with its reason.

    sources: function that resolves names of models and systems; by default they open no file.

    Raises:
        InvalidValue: invalid keys, names or values, or too many combinations.
    """
    unknown = sorted(set(map(str, asked)) - set(_KEYS))
    if unknown or not isinstance(asked.get("question"), Mapping):
        said = f"{unknown[0]!r} is not a key of a study" if unknown else "a study needs a question"
        raise InvalidValue(f"{said}: give {', '.join(_KEYS)}")
    axes = [_named(axis, asked.get(axis)) for axis in _AXES]
    combinations = list(product(*axes))
    if len(combinations) > _MOST:
        raise InvalidValue(f"{len(combinations)} combinations: a study has at most {_MOST}")
    rows = tuple(_priced(asked["question"], each, sources) for each in combinations)
    return Study(str(asked.get("title", "Technology study")), rows)


def _named(axis: str, given: Any) -> list[dict[str, Any]]:
    """The entries of an axis, each with a name; a single unchanged one where none is given."""
    if given is None:
        return [{"name": "as it is"}]
    rows = isinstance(given, Sequence) and not isinstance(given, str) and given
    if not rows or not all(isinstance(one, Mapping) and one.get("name") for one in given):
        raise InvalidValue(f"{axis} of a study: give a list of entries with a name each")
    names = [str(one["name"]) for one in given]
    if len(set(names)) < len(names):
        raise InvalidValue(f"{axis} of a study: a name appears twice, {', '.join(names)[:120]}")
    return [{str(key): value for key, value in one.items()} for one in given]


def _priced(
    shared: Mapping[str, Any], chosen: tuple[dict[str, Any], ...], sources: Sources
) -> dict[str, Any]:
    chip, form, technique = chosen
    row: dict[str, Any] = {
        "chip": chip["name"], "format": form["name"], "technique": technique["name"]
    }  # fmt: skip
    changes = {key: value for key, value in chip.items() if key in _CHIP}
    more = {key: value for key, value in chip.items() if key not in (*_CHIP, "name")}
    plain = [{k: v for k, v in one.items() if k not in ("name", "config")}
             for one in (form, technique)]  # fmt: skip
    given = {**shared, **more, **plain[0], **plain[1]}
    opened = dict(sources(given))
    if "config" in technique:
        opened["model"] = _other_config(opened["model"], technique["config"])
    if changes:
        opened["system"] = chip_system(find_system(opened.get("system", "h100")), _chip(changes))
    question = ask("estimate", opened)
    if question.size > 1:
        raise InvalidValue("a study prices one batch per combination: give numbers, not lists")
    try:
        found = results.estimate(question, "status")
        results.refuse_alone(found)
    except RidgelineError as refusal:
        if isinstance(refusal, (InvalidValue, UnknownName)):
            raise
        return {**row, "status": refusal.code, "message": str(refusal)}
    priced = found.rows[0]
    row |= {"status": priced["status"], "message": priced["message"]}
    runs = priced["status"] == "ok"
    row |= {name: priced.get(name) if runs else None for name in _FIGURES}
    if isinstance(found, results.Estimate):
        for phase in ("prefill", "decode"):
            row[f"{phase}_bound_by"] = _binds(found, phase)
    return row


def label(row: Mapping[str, Any]) -> str:
    """A combination of a study in words: its differences from the base."""
    names = (row["chip"], row["format"], row["technique"])
    return ", ".join(name for name in names if name != "as it is") or "as it is"


def _chip(changes: Mapping[str, Any]) -> Chip:
    read: dict[str, Any] = {
        name: str(value) if name == "memory" else _number(name, value)
        for name, value in changes.items()
    }
    try:
        return Chip(**read)
    except TypeError as error:
        raise InvalidValue(f"a chip of a study: {error}") from None


def _number(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidValue(f"{name} = {brief(value)}: give a number")
    return value


def _other_config(model: Any, changes: Any) -> dict[str, Any]:
    """The config of a model with some keys changed."""
    if not isinstance(changes, Mapping):
        raise InvalidValue("config of a technique: give keys of the model's config.json")
    checkpoint = find_checkpoint(model)
    return {**checkpoint.config, **changes, "_id": f"{checkpoint.name} (changed)"}


def _binds(found: results.Estimate, phase: str) -> str:
    """The resource with the largest share of a step's least time, and that share."""
    table = found.operators(phase)
    seconds = table["bound_s"].groupby(table["bound"]).sum()
    shares = {name: float(seconds.get(name, 0.0)) for name in _RESOURCES}
    whole = sum(shares.values())
    name = max(shares, key=lambda one: shares[one])
    return f"{name} {100.0 * shares[name] / whole:.0f} %" if np.isfinite(whole) and whole else ""
