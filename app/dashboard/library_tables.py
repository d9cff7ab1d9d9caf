"""The libraries as tables: systems with their facts, models with their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
import yaml

import hardware_db
from app.dashboard import cached, own_definitions
from app.wording import quantities
from app.wording.quantities import GIGABYTE
from genz_core.errors import RidgelineError
from genz_core.types import Parallelism, Step, System
from hardware_db.system_schema import unit_of
from model_registry.finding.loading import describe as describe_model
from model_registry.finding.loading import names as model_names

TERA = 1e12
_WIDE = ("bf16", "fp16", "tf32", "fp32")


def systems() -> dict[str, System]:
    """Every system that can be read: the visitor's own, those that ship, the user's folder."""
    mine = {
        name: hardware_db.load_yaml(words) for name, words in own_definitions.own("systems").items()
    }
    return mine | _on_disk()


@st.cache_resource(ttl=30, show_spinner=False)
def _on_disk() -> dict[str, System]:
    return dict(_readable())


def _readable() -> Iterator[tuple[str, System]]:
    """A file of the user's that does not fit the schema is left out here and said when chosen."""
    for name in hardware_db.names():
        try:
            yield name, hardware_db.load(name)
        except RidgelineError:
            continue


def wide_peak(system: System) -> float:
    """The dense 16-bit peak, or the widest matrix peak that is stated [FLOP/s]."""
    peaks = system.peak_flops_per_s
    return next((peaks[name] for name in _WIDE if name in peaks), max(peaks.values()))


def point(name: str, system: System) -> dict[str, Any]:
    """A system as a point of `charts.hardware.plane`."""
    peak, rate = wide_peak(system), system.memory_bytes_per_s
    words = (
        f"{quantities.flops_rate(peak)} dense 16 bit<br>{quantities.size(system.memory_bytes)} at "
        f"{quantities.bandwidth(rate)}<br>ridge {quantities.digits(peak / rate)} FLOP/byte"
    )
    named = {"slug": name, "name": system.name, "vendor": system.vendor, "kind": system.kind}
    return named | {"memory_bytes_per_s": rate, "peak_flops_per_s": peak, "words": words}


def system_row(name: str, system: System) -> dict[str, Any]:
    """A system as a row, display units in the column names; what is not stated is empty."""
    peaks = system.peak_flops_per_s
    near = system.links[0] if system.links else None
    return {
        "slug": name,
        "name": system.name,
        "vendor": system.vendor,
        "kind": system.kind,
        "16 bit [TFLOP/s]": wide_peak(system) / TERA,
        "fp8 [TFLOP/s]": peaks["fp8"] / TERA if "fp8" in peaks else None,
        "fp4 [TFLOP/s]": peaks["fp4"] / TERA if "fp4" in peaks else None,
        "memory [GB]": system.memory_bytes / GIGABYTE,
        "bandwidth [GB/s]": system.memory_bytes_per_s / GIGABYTE,
        "ridge [FLOP/byte]": wide_peak(system) / system.memory_bytes_per_s,
        "link [GB/s]": near.bytes_per_s / GIGABYTE if near else None,
        "link domain": near.domain if near else None,
        "TDP [W]": system.tdp_w,
        "price [$/h]": system.price_usd_per_hour,
    }


def facts(name: str) -> pd.DataFrame:
    """Every figure of a shipped system with its source.

    Raises:
        RidgelineError: no such system, or its file does not fit the schema.
    """
    record = hardware_db.facts(name)
    return pd.DataFrame(
        [
            {
                "figure": path,
                "value": fact.value,
                "unit": unit_of(path),
                "kind": fact.kind,
                "source": record.sources[fact.source].title,
                "link": record.sources[fact.source].url,
                "note": fact.note,
            }
            for path, fact in record.figures()
        ]
    )


@st.cache_data(show_spinner=False)
def shipped_models() -> pd.DataFrame:
    """Every shipped model that can be read, a row each."""
    return pd.DataFrame([_model_row(facts) for facts in _described()])


def _described() -> Iterator[Mapping[str, Any]]:
    for name in model_names():
        try:
            yield describe_model(name)
        except RidgelineError:
            continue


def _model_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "type": row["model_type"],
        "parameters [B]": row["parameters"] / GIGABYTE,
        "active [B]": row["active_parameters"] / GIGABYTE,
        "layers": row["layers"],
        "hidden": row["hidden_size"],
        "context [tokens]": row["max_context"],
        "quantised": row["quantized"],
        "confirmed": row["confirmed"],
    }


def model_facts(name: str, config: str) -> dict[str, str]:
    """A model's facts in words, with the cache that a token costs.

    Raises:
        RidgelineError: the model cannot be read.
    """
    model = cached.model_of(name, config, ())
    one = model.graph(Step.decode(1.0, 1.0), Parallelism())
    cache = sum(float(np.sum(op.kv_write_bytes)) * op.count for op in one.ops)
    known = {
        "Parameters": quantities.parameters(model.parameters),
        "Active per token": quantities.parameters(model.active_parameters),
        "Layers": quantities.count(one.layers),
        "Trained context": f"{quantities.count(model.max_context)} tokens"
        if model.max_context
        else "–",
        "Cache per token": quantities.size(cache),
        "Weights": ", ".join(f"{role} {kind}" for role, kind in model.precision.weights.items()),
        "KV cache": model.precision.kv,
        "Precision from": model.precision.source,
    }
    source = "the visitor's config.json" if config else model.source or "–"
    return known | {"Source": source, "Notes": "; ".join(model.notes) or "none"}


# ------------------------------------------------------------------------------- hardware form


def describe_hardware(name: str, figures: Mapping[str, float]) -> str:
    """A system YAML from a form.  figures: by the schema's path; zero is unknown."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())[:60]
    document: dict[str, Any] = {
        "id": slug or "my-system",
        "name": name or "My system",
        "vendor": "own",
        "kind": "gpu",
        "family": "own",
        "sources": {"form": {"title": "Typed into the dashboard"}},
    }
    stated = {path: value for path, value in figures.items() if value}
    if "links.scale_up.gb_per_s" not in stated:
        stated = {path: v for path, v in stated.items() if not path.startswith("links.")}
    for path, value in stated.items():
        *parents, last = path.split(".")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = {"value": value, "source": "form", "kind": "assumed", "note": "as typed"}
    tier = document.get("links", {}).get("scale_up")
    if tier:
        tier["name"] = "scale-up link"
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
