"""Keys of addresses that earlier releases wrote, with their present parameters."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import streamlit as st

from app.question.parameters import PARAMETERS
from hardware_db import yaml_document

_RENAMED = yaml_document.read(Path(__file__).with_name("old_links.yaml"))
#: The present control for the value of an old key.
OLD: Mapping[str, str] = {
    **{f"sim_{name}": name for name in PARAMETERS if name != "trace"},
    **{old: name for name, keys in _RENAMED.items() for old in keys},
}
_IN_PERCENT = ("plan_hits", "plan_confidence")
_SEVERAL = ("pools", "systems", "engines", "formats", "drafts", "models", "versions", "uses")
_RENT = "plan_rent_"  # and the name of a system: its rent, in dollars an hour
#: Figures that had boxes for targets on page Plan, with their unit and initial value.
_BOUNDS = {"ttft": ("ms", "0"), "tpot": ("ms", "30"), "e2e": ("s", "0"), "usd_per_mtok": ("", "0")}
_TARGETS = (*(f"plan_{name}" for name in _BOUNDS), "plan_statistic", "plan_targets")
#: Keys that stated the kind of load, with its number under another key.
_KINDS = ("asked", "load", "serving_loop", "plan_load", "sim_traffic", "sensitivity_load")
_STATIC = ("Static batch", "Batch", "one batch at a time")
#: Parts of pages under titles of earlier releases.
_PARTS = {"Beside its prediction": "Measured and predicted"}
_SAYS_NOTHING = ("none", "as decode", "", "Curves")


def take() -> None:
    """Rewrite the address with present keys; called before any control is drawn."""
    if part := _PARTS.get(st.query_params.get("part", "")):
        st.query_params["part"] = part
        st.rerun()
    old = (*OLD, *_TARGETS, *_KINDS)
    keys = [key for key in st.query_params if key in old or key.startswith(_RENT)]
    if st.query_params.get("compare_by") == "Pinned":
        keys.append("compare_by")
    if not keys:
        return
    found = {key: st.query_params.get_all(key) for key in keys}
    for key in keys:
        del st.query_params[key]
    values = {OLD[key]: _value(key, texts) for key, texts in found.items() if key in OLD}
    if "compare_by" in found:
        values["part"] = "Pinned"
    values = {name: value for name, value in values.items() if value not in _SAYS_NOTHING}
    rents = {key.removeprefix(_RENT): text[-1] for key, text in found.items() if _RENT in key}
    if rents:
        values["price"] = ",".join(f"{system}={rent}" for system, rent in rents.items())
    if set(_TARGETS) & set(found):
        values["target"] = _targets({key: texts[-1] for key, texts in found.items()})
    kind = next((found[key][-1] for key in _KINDS if key in found), "")
    values |= _load(kind, {*values, *st.query_params})
    for name, value in values.items():
        if name not in st.query_params or name == "part":
            st.query_params[name] = value
    st.rerun()


def _value(key: str, texts: Sequence[str]) -> str | list[str]:
    """The value of an old key in the present form."""
    name, text = OLD[key], texts[-1]
    if name in _SEVERAL:
        return [each.strip() for each in ",".join(texts).split(",")]
    if name == "upload_samples":
        return list(texts)
    if key == "frontier_devices":
        return f"1:{text}"
    return _share(text) if key in _IN_PERCENT else text


def _load(kind: str, stated: Collection[str]) -> dict[str, str]:
    """The load, if an earlier release stated its kind and its number separately.

    kind: under its old name, "" for none.  stated: parameters in the address.
    """
    if "race" in kind:
        return {"trace": "trace"}
    if kind in _STATIC:
        return {} if "batch" in stated else {"batch": "1"}
    if kind and "batch" in stated and not {"concurrency", "rate"} & set(stated):
        return {"concurrency": st.query_params["batch"]}
    return {}


def _share(percent: str) -> str:
    with suppress(ValueError):
        return f"{float(percent) / 100:g}"
    return percent  # refused by the control, as typed


def _targets(said: Mapping[str, str]) -> str:
    """The targets in the boxes of the old page Plan: 0 for none, latencies of one statistic."""
    statistic = said.get("plan_statistic", "mean")
    terms = []
    for name, (unit, usual) in _BOUNDS.items():
        bound = said.get(f"plan_{name}", usual)
        if bound not in ("", "0", "0.0"):
            suffix = "" if statistic == "mean" or not unit else f"_{statistic}"
            terms.append(f"{name}{suffix} < {bound}{unit}")
    return ", ".join(filter(None, (*terms, said.get("plan_targets", ""))))
