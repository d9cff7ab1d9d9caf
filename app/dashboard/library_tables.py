"""Systems and models as tables: rows of the lists, facts of a chosen one."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

import hardware_db
from app.charts.hardware import wide_peak
from app.dashboard import caches, own_definitions, visitor
from app.dashboard.page_texts import page_text
from app.wording import quantities
from app.wording.quantities import GIGABYTE, TERA
from genz_core.errors import RidgelineError
from genz_core.systems import System
from genz_core.types import Parallelism, Step
from model_registry.finding.loading import describe as describe_model
from model_registry.finding.loading import names as model_names

#: Heads of the facts of models.
_MODELS: Mapping[str, str] = {
    "name": "name", "model_type": "type", "parameters": "parameters [B]",
    "active_parameters": "active [B]", "layers": "layers", "hidden_size": "hidden",
    "max_context": "context [tokens]", "quantized": "quantised", "confirmed": "confirmed",
}  # fmt: skip


def readable_systems() -> dict[str, System]:
    """Every readable system: the visitor's own, the shipped ones, those in the user's folder."""
    texts = own_definitions.own_texts("systems")
    own = {name: hardware_db.load_yaml(text) for name, text in texts.items()}
    return own | systems_on_disk(*visitor.own_edition())


@st.cache_resource(max_entries=16, show_spinner=False)
def systems_on_disk(own_folder: str, own_edition: str) -> dict[str, System]:
    """Systems in files, including those in the visitor's folder; unreadable files are left out."""
    found: dict[str, System] = {}
    for name in hardware_db.names():
        with suppress(RidgelineError):
            found[name] = hardware_db.load(name)
    return found


def system_words(system: System) -> str:
    """The figures of a system in words."""
    peak, rate = wide_peak(system), system.memory_bytes_per_s
    rates = {"peak": quantities.flops_rate(peak), "rate": quantities.bandwidth(rate)}
    return page_text("system", system=system, ridge=quantities.digits(peak / rate), **rates)


def system_row(name: str, system: System) -> dict[str, Any]:
    """A system as a row in display units; None where the datasheet states nothing."""
    peaks, peak = system.peak_flops_per_s, wide_peak(system)
    link = system.links[0] if system.links else None
    return {
        "slug": name,
        "name": system.name,
        "vendor": system.vendor,
        "kind": system.kind,
        "16 bit [TFLOP/s]": peak / TERA,
        "fp8 [TFLOP/s]": peaks["fp8"] / TERA if "fp8" in peaks else None,
        "fp4 [TFLOP/s]": peaks["fp4"] / TERA if "fp4" in peaks else None,
        "memory [GB]": system.memory_bytes / GIGABYTE,
        "bandwidth [GB/s]": system.memory_bytes_per_s / GIGABYTE,
        "ridge [FLOP/byte]": peak / system.memory_bytes_per_s,
        "link [GB/s]": link.bytes_per_s / GIGABYTE if link else None,
        "link domain": link.domain if link else None,
        "topology": str(link.topology) if link else None,
        "TDP [W]": system.tdp_w,
        "rent [$/h]": system.price_usd_per_hour,
    }


def wiring_words(system: System) -> str:
    """How the devices are wired, tier by tier: "NVLink 4: switch of 8; InfiniBand: rails"."""
    words = []
    for link in system.links:
        reach = f" of {link.domain:,}" if link.domain else ""
        rate = f", {link.bytes_per_s / GIGABYTE:.4g} GB/s"
        words.append(f"{link.name}: {link.topology}{reach}{rate}")
    return "; ".join(words)


@st.cache_data(show_spinner=False)
def shipped_models() -> pd.DataFrame:
    """A row for every shipped model that can be read, in display units."""
    rows = []
    for name in model_names():
        with suppress(RidgelineError):
            rows.append(describe_model(name))
    table = pd.DataFrame(rows)[list(_MODELS)].rename(columns=_MODELS)
    in_billions = ["parameters [B]", "active [B]"]
    return table.assign(**{head: table[head] / GIGABYTE for head in in_billions})


def model_facts(name: str, config: str) -> dict[str, str]:
    """Facts of a model in words, with the bytes of cache per token.

    config: the text of a visitor's config.json, "" for a model by name.
    """
    model = caches.model_of(name, config, ())
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    cache = sum(float(np.sum(op.kv_write_bytes)) * op.count for op in graph.ops)
    facts = {
        "Parameters": quantities.parameters(model.parameters),
        "Active per token": quantities.parameters(model.active_parameters),
        "Layers": quantities.count(graph.layers),
        "Trained context": f"{quantities.count(model.max_context)} tokens"
        if model.max_context
        else "–",
        "Cache per token": quantities.size(cache),
        "Weights": ", ".join(f"{role} {kind}" for role, kind in model.precision.weights.items()),
        "KV cache": model.precision.kv,
        "Precision from": model.precision.source,
    }
    source = "the visitor's config.json" if config else model.source or "–"
    return facts | {"Source": source, "Notes": "; ".join(model.notes) or "none"}
