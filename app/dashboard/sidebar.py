"""The scenario's controls in the sidebar; each is bound to the address, so a link restores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import streamlit as st

import hardware_db
from app.dashboard import (
    cached,
    first_engine,
    hub_button,
    near_names,
    open_point,
    own_definitions,
    pinned,
    tracing,
)
from app.scenario.describing import setup_words
from app.scenario.inputs import SIZE
from app.scenario.scenario import OFFLOADS, Resolved, Scenario
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core import Estimate
from genz_core.errors import RidgelineError
from genz_core.limits import LIMITS, checked_size
from genz_core.model_kinds import check_generates
from genz_core.overlap import OVERLAPS
from model_registry.finding.loading import names as model_names

AUTO = "as checkpoint"
_TYPED = "GGUF types such as q5_k_m and pairs such as w8a8 can be typed."
PRECISIONS = ("bf16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4", "q8_0", "q4_k_m")
DEGREES = (1, 2, 4, 8, 16, 32, 64)
CUSTOM = "Custom"
#: Usual workloads by name: batch, isl, osl.
PRESETS: Mapping[str, tuple[int, int, int]] = {
    "One request 1k / 128": (1, 1024, 128),
    "Chat 1k / 1k": (32, 1024, 1024),
    "RAG 8k / 256": (16, 8192, 256),
    "Agent 64k / 2k": (4, 65536, 2048),
    "Reasoning 1k / 8k": (32, 1024, 8192),
    "Batch 2k / 512": (256, 2048, 512),
}
DEGREES_HELP = """
**TP** tensor parallel: every matrix split over devices.
**PP** pipeline parallel: layers split into stages.
**DP** attention data parallel: ranks hold other sequences, the experts span all of them.
**EP** expert parallel: experts split over devices; divides TP × DP.
Other degrees can be typed.
"""
_DEFAULT = Scenario()


def sidebar(*, plays: bool = True) -> None:
    """Draw what is left out of the user's files, and the scenario's controls; keep their setup, or
    the error of it, for the page.

    plays: whether the scenario plays a part on the page; where not, its controls are not seen.
    """
    open_point.take_next()
    first_engine.came_by_link()
    if not plays:
        st.sidebar.caption("The scenario plays no part on this page; it is kept for the others.")
        st.html("<style>.st-key-scenario_controls {display: none}</style>")
    with st.sidebar, st.container(key="scenario_controls"):
        for sentence in cached.left_out():
            st.warning(plain(sentence), icon=":material/warning:")
        model, system = _names()
        try:
            hub_button.ask_button(model)
            chosen = _scenario(model, system)
        except RidgelineError as error:
            st.session_state["setup"] = error
            st.error(plain(error))
            return
        factors = _what_if(system)
        own_definitions.uploader()
        st.session_state["setup"] = own_definitions.attach(Setup(chosen, **factors))
        pinned.pin_controls()
        pinned.copy_link()


def chosen_setup() -> Setup:
    """The setup of the sidebar; where its controls are in error, the page stops with a sentence."""
    setup = st.session_state.get("setup", Setup())
    if isinstance(setup, RidgelineError):
        stop(setup)
    return setup


def priced_setup(generation: str = "") -> tuple[Setup, Resolved, Estimate]:
    """The setup of the sidebar with its model, system and engine, and its estimate.

    Where it cannot be priced, the page stops with a sentence; where its model is yet to be traced,
    with the progress of that.
    generation: what of the page is about generation alone, as the subject of a sentence; it stops
    at a model that generates nothing.
    """
    setup = chosen_setup()
    try:
        if not tracing.is_trace_ready(setup, described=False):
            st.stop()
        resolved = cached.resolved(setup)
        if generation:
            check_generates(resolved.model, generation)
        return setup, resolved, cached.priced(setup)
    except RidgelineError as error:
        stop(error)


def stop(error: RidgelineError) -> NoReturn:
    """Show an error as its sentence and end the page."""
    st.error(plain(error), icon=":material/error:")
    near_names.near_buttons(error)
    st.caption("Change the scenario in the sidebar; nothing else on this page is shown until then.")
    st.stop()
    raise error


# ------------------------------------------------------------------------------- controls


def _names() -> tuple[str, str]:
    """Draw the boxes of model and system; returns the chosen names."""
    models = [*own_definitions.own_texts("models"), *model_names()]
    systems = [*own_definitions.own_texts("systems"), *hardware_db.names()]
    model = st.selectbox(
        "Model",
        models,
        index=_place(models, _DEFAULT.model),
        key="model",
        bind="query-params",
        accept_new_options=True,
        on_change=near_names.take_first,
        args=("model", models),
        help="Type to search; any Hugging Face id of a known architecture is understood. "
        "hf:owner/name stands for a model on the hub, which is asked when you press a button.",
    )
    system = st.selectbox(
        "System",
        systems,
        index=_place(systems, _DEFAULT.system),
        key="system",
        bind="query-params",
        accept_new_options=True,
        on_change=near_names.take_first,
        args=("system", systems),
        help="Type to search; marketing names and what nvidia-smi prints are understood.",
    )
    return str(model), str(system)


def _place(names: list[str], wanted: str) -> int:
    return names.index(wanted) if wanted in names else 0


def _scenario(model: str, system: str) -> Scenario:
    degrees = _degrees()
    load = _workload()
    near_names.unknown_engine()
    first_engine.propose(system)
    of_engine, of_version = st.columns((3, 2), gap="xxsmall")
    engine = of_engine.selectbox(
        "Engine",
        sorted(hardware_db.engine_names(), key=lambda name: name != _DEFAULT.engine),
        key="engine",
        bind="query-params",
        help="Serving software: its launch floors, host time, chunking and memory reserve. Generic "
        "is an assumed one, which the command line and Python price where none is named; a visit "
        "without a link begins with one that was measured on the device.",
    )
    version = of_version.text_input(
        "Version",
        key="engine_version",
        bind="query-params",
        placeholder="any",
        max_chars=40,
        help="A release (0.9.0), a build (b6918) or a month (2024-05). Eras that ran otherwise "
        "have constants of their own; a release that nobody measured has wider intervals.",
    )
    of_software: dict[str, Any] = {"engine": engine, "engine_version": version.strip()}
    return Scenario(model=model, system=system, **of_software, **_precisions(), **degrees, **load)


def _degrees() -> dict[str, Any]:
    """Draw the parallel degrees, and what experts on several ranks bring.

    Raises:
        InvalidValue: a typed degree is no whole number.
    """
    degrees: dict[str, int] = {}
    for column, name in zip(st.columns(4, gap="xxsmall"), ("tp", "pp", "dp", "ep"), strict=True):
        typed = column.selectbox(
            name.upper(), DEGREES, key=name, bind="query-params", accept_new_options=True
        )
        degrees[name] = checked_size(name, typed, name.upper())
    devices = degrees["tp"] * degrees["pp"] * degrees["dp"]
    st.caption(f"{devices} device{'s' if devices > 1 else ''} = TP × PP × DP", help=DEGREES_HELP)
    return {**degrees, **(_of_experts() if degrees["ep"] > 1 else {})}


def _of_experts() -> dict[str, Any]:
    """Draw what experts on several ranks bring: the busiest rank, copies, what runs beside."""
    beside = st.selectbox(
        "Beside the exchange of tokens",
        OVERLAPS,
        key="overlap",
        bind="query-params",
        help="Two halves of a step: one computes while the other is exchanged, each reads the "
        "weights.",
    )
    copies = st.number_input(
        "Redundant experts",
        0,
        4096,
        0,
        key="redundant_experts",
        bind="query-params",
        help="Copies of busy experts; EP divides the model's experts and these.",
    )
    return {"expert_imbalance": _imbalance(), "redundant_experts": copies, "overlap": beside}


def _imbalance() -> float:
    """Draw the box of the busiest expert rank's load over the mean."""
    return st.number_input(
        "Busiest expert rank ×",
        1.0,
        64.0,
        1.0,
        step=0.1,
        key="expert_imbalance",
        bind="query-params",
        help="Routed rows of the busiest of the EP ranks over their mean; the others wait for it.",
    )


def _workload() -> dict[str, Any]:
    """Draw the preset, the numbers and the other inputs of the workload; returns their fields."""
    place = st.container()
    labels = {"batch": "Batch", "isl": "Input", "osl": "Output"}
    workload: dict[str, int] = {}
    for column, (name, label) in zip(st.columns(3, gap="xxsmall"), labels.items(), strict=True):
        limit = LIMITS[name]
        workload[name] = column.number_input(
            label, limit.least, limit.most, getattr(_DEFAULT, name), key=name, bind="query-params"
        )
    st.caption(
        "sequences, tokens each",
        help="Batch: sequences that run together. Input and output (ISL, OSL): tokens of each.",
    )
    inputs = _inputs()
    numbers = (workload["batch"], workload["isl"], workload["osl"])
    st.session_state["preset"] = next((n for n, p in PRESETS.items() if p == numbers), CUSTOM)
    place.selectbox(
        "Workload",
        [*PRESETS, CUSTOM],
        key="preset",
        on_change=_apply_preset,
        help="Prompt and output length in tokens; sets the three numbers below.",
    )
    return {**workload, **inputs}


def _inputs() -> dict[str, Any]:
    """Draw what requests bring beside text, and passes of a diffusion model; returns the fields."""
    with st.expander("Images, sound, passes", icon=":material/image:", key="inputs_open"):
        images = st.number_input(
            "Images of a request", 0, 10_000, 0, key="images", bind="query-params",
            help="For models that see: their tokens add to the input, the encoder's time to TTFT.",
        )  # fmt: skip
        size = st.text_input(
            "Their size [pixels]", SIZE, key="image_size", bind="query-params",
            help="Width x height.",
        )  # fmt: skip
        seconds = st.number_input(
            "Sound of a request [s]", 0.0, 1e6, 0.0, key="audio_seconds", bind="query-params",
            help="For models that hear; 0: a whole window.",
        )  # fmt: skip
        steps = st.number_input(
            "Diffusion steps", 0, 1_000_000, 0, key="diffusion_steps", bind="query-params",
            help="Passes of a diffusion model for an answer; 0: one a token.",
        )  # fmt: skip
        block = st.number_input(
            "Block length", 0, 1_000_000, 0, key="block_length", bind="query-params",
            help="Tokens that a diffusion model refines together; 0: 32.",
        )  # fmt: skip
    return {
        "images": images, "image_size": "" if size == SIZE else size, "audio_seconds": seconds,
        "diffusion_steps": steps, "block_length": block,
    }  # fmt: skip


def _apply_preset() -> None:
    chosen = PRESETS.get(st.session_state["preset"])
    if chosen:
        st.session_state.update(zip(("batch", "isl", "osl"), chosen, strict=True))


def _precisions() -> dict[str, Any]:
    """Draw the number formats and the offload; returns the scenario's fields, "" by default."""
    labels = {
        "kv": "KV cache",
        "moe_weights": "Expert weights",
        "activations": "Activations",
        "compute": "Arithmetic",
    }
    fields = {"weights": _format("weights", "Weights", _TYPED)}
    with st.expander("Other formats, offload", icon=":material/memory:", key="precision_open"):
        fields |= {name: _format(name, label) for name, label in labels.items()}
        moved = st.selectbox(
            "Offload",
            ("none", *OFFLOADS),
            key="offload",
            bind="query-params",
            help="Keep what does not fit in host memory or on disk; each step reads it again. "
            "Experts are computed there. levels: weights and cache in the device's second memory.",
        )
        fields["offload"] = "" if moved == "none" else str(moved)
    return fields


def _format(name: str, label: str, about: str | None = None) -> str:
    """Draw the box of a number format; returns it, "" for the checkpoint's."""
    choice = st.selectbox(
        label, (AUTO, *PRECISIONS), key=name, bind="query-params", accept_new_options=True,
        help=about,
    )  # fmt: skip
    return "" if choice == AUTO else str(choice)


def _what_if(system: str) -> dict[str, Any]:
    """Draw the factors on the hardware and the rent; returns the setup's fields."""
    labels = {
        "peak": "Peak arithmetic",
        "bandwidth": "Memory bandwidth",
        "capacity": "Memory capacity",
        "link": "Link bandwidth",
    }
    with st.expander("What if", icon=":material/tune:", key="what_if_open"):
        fields = {
            name: st.slider(f"{label} ×", 0.25, 4.0, 1.0, 0.25, key=name, bind="query-params")
            for name, label in labels.items()
        }
        fields["price"] = (
            st.number_input(
                "Rent of a device [$/h]",
                0.0,
                1e5,
                None,
                step=0.5,
                key="price",
                bind="query-params",
                placeholder=_public_rent(system),
                help="Empty: the system's public price, where one is known.",
            )
            or 0.0
        )
    return fields


def _public_rent(system: str) -> str:
    """What stands in the empty box of the rent: the public price of the system, if it has one."""
    try:
        price = hardware_db.load(system).price_usd_per_hour
    except RidgelineError:  # said by the page
        price = None
    return "none known" if price is None else f"{price:.2f}, as published"


def describe(setup: Setup) -> str:
    """Model, system, degrees, engine, formats, workload and changes, a line of Markdown."""
    return " · ".join(map(plain, setup_words(setup)))
