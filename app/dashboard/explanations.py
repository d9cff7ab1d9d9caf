"""Explanations of a page's numbers: configuration, formulas, command, assumptions, intervals."""

import shlex
from contextlib import suppress
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import streamlit as st

from app.answers.column import ends
from app.answers.columns import COLUMNS
from app.dashboard import caches, load_curves, sidebar
from app.dashboard.load_curves import Load, as_batch
from app.dashboard.page_texts import page_text
from app.planning.options import stated
from app.question.parameters import PARAMETERS
from app.scenario import intervals, summary
from app.scenario.encoder_figures import of_kind
from app.scenario.inputs import SIZE, sound_seconds
from app.scenario.levers import phases_of
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.scenario.summary import parts_of, step_of
from app.scenario.system_facts import peak_words
from app.wording import quantities
from app.wording.markdown import plain
from genz_core import Estimate
from genz_core.errors import RidgelineError
from genz_core.models.model_kinds import generates


def configuration(setup: Setup, resolved: Resolved, estimate: Estimate) -> str:
    """Devices, degrees, precision, engine and workload of a static batch in one line."""
    s, devices = setup.scenario, int(estimate.devices)
    named = {name.upper(): getattr(s, name) for name in ("tp", "pp", "dp", "ep")}
    degrees = ", ".join(f"{name} {degree}" for name, degree in named.items() if degree > 1)
    if s.ep > 1 and s.expert_imbalance > 1:
        degrees += f", busiest expert rank ×{s.expert_imbalance:g}"
    degrees += f", {s.redundant_experts} redundant experts" if s.redundant_experts else ""
    precision, makes = resolved.model.precision, generates(resolved.model)
    kinds = dict.fromkeys([precision.weight("default"), *precision.weights.values()])
    heard = sound_seconds(resolved.model, s)
    read = f"{heard:g} s of audio in" if heard else f"{quantities.count(s.isl)} tokens in"
    cache, made = f", KV cache {plain(precision.kv)}", f", {quantities.count(s.osl)} out"
    words = [
        quantities.counted(devices, "device") + (f" ({degrees})" if degrees else ""),
        f"weights {plain(' + '.join(kinds))}{cache if makes else ''}",
        f"engine {plain(f'{resolved.engine.name} {resolved.scenario.engine_version}'.strip())}",
        f"batch {s.batch:,}, {read}{made if makes else ''}",
    ]
    if s.images:
        words.append(f"{s.images} images of {s.image_size or SIZE} pixels in each")
    if estimate.encoder_s[0] > 0:
        words.append(f"encoder {quantities.seconds(float(estimate.encoder_s[0]))} of TTFT")
    return " · ".join(words)


def formulas(setup: Setup, resolved: Resolved, estimate: Estimate) -> str:
    """The formulas of the cards' figures with numbers put in, as Markdown."""
    s = setup.scenario
    held = caches.priced(replace(setup, if_fitted=False)).memory  # of the device as it is
    sums = {}
    for phase in phases_of(estimate):
        parts = parts_of(step_of(estimate, phase))
        sums[phase] = " + ".join(f"{n} {quantities.seconds(v)}" for n, v in parts.items() if v)
    told = {"s": s, "one": estimate, "last": s.isl + s.osl - 2, **sums}
    if "decode" in sums:
        latencies = page_text("formulas", **told)
    elif generates(resolved.model):
        latencies = page_text("formulas of one token", **told)
    else:
        latencies = page_text("formulas of a pass", **told)
    peaks, fraction = peak_words(resolved.system), resolved.engine.memory_fraction
    memory = page_text("formulas of memory", m=held, fraction=fraction, peaks=peaks)
    return f"{latencies}\n\n{memory}"


def command(setup: Setup, load: Load | None = None) -> str:
    """The command that prints the same figures; "" if there is none.

    Uploaded definitions have no option.  load: None for the static batch.
    """
    s = setup.scenario
    if setup.model_config or setup.system_yaml:
        return ""
    under: dict[str, Any] = {"batch": 1, load.name: load.value} if load else {}
    asked = replace(s, **under)
    options = stated(asked, [name for name in PARAMETERS if name != "model"])
    return shlex.join(["ridgeline", "serve" if load else "estimate", s.model, *options])


def show_assumptions(resolved: Resolved) -> None:
    """Draw a collapsed list of the notes and assumptions of model, system and engine."""
    notes = (*resolved.notes, *resolved.system.assumptions, *resolved.engine.assumptions)
    with st.expander(f"{len(notes)} assumptions behind these figures", icon=":material/info:"):
        st.markdown("\n".join(f"- {plain(note)}" for note in notes) or "None.")


def for_your_scenario(setup: Setup) -> None:
    """Draw how accurate the latencies of a question are; nothing if it cannot be priced."""
    with suppress(RidgelineError):
        if setup.scenario.kind in ("concurrency", "rate"):
            row = of_kind(caches.deployed(setup).model, load_curves.one_load(setup))
            words = []
            for column in (COLUMNS[name] for name in ("latency_s", "ttft_s", "tpot_s")):
                if isfinite(row.get(column.name, nan)):
                    within = column.span(*(row[end] for end in ends(column.name)))
                    words.append(f"{column.head} {column.words(row[column.name])} (80 %: {within})")
            said = f"{'; '.join(words) or plain(row['message'])}."
        else:
            said = trust(caches.priced(as_batch(setup)))
        st.markdown(f"**For your scenario** ({sidebar.describe(setup)}): {said}")


def trust(estimate: Estimate) -> str:
    """The 80 % intervals of the latencies, and whose constants priced the operators."""
    of_figure = intervals.of_batch(estimate)
    words = []
    heads = ("ttft_s", "tpot_s") if generates(estimate.model) else ("latency_s",)
    for _, name, head in zip(phases_of(estimate), ("ttft_s", "tpot_s"), heads, strict=False):
        points = f" ({interval.points:,} held-out points)" if (interval := of_figure[name]) else ""
        words.append(f"{COLUMNS[head].head} {intervals.latency(estimate, name).trust}{points}")
    profile = plain(summary.profile_words(estimate))
    basis = f" {page_text('static intervals')}" if any(of_figure.values()) else ""
    return f"80 % intervals: {'; '.join(words)}.{basis} Latency profile {profile}."
