"""Models and systems that a visitor defines: checked text, kept for the session; and the button
that asks the Hugging Face hub for a model, which no other part of the dashboard does.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any, Literal

import streamlit as st
import yaml

import hardware_db
import model_registry
from app.dashboard import visitor
from app.dashboard.widgets import say_error
from app.scenario.setup import Setup
from app.wording.markdown import plain, with_code
from genz_core.errors import InvalidValue, RidgelineError
from model_registry.finding.gguf import MAGIC
from model_registry.finding.gguf_config import gguf_config
from model_registry.finding.hub import hub_id
from model_registry.finding.sources import cached_config, hub_config, json_object, shipped_page

Kind = Literal["models", "systems"]
#: The name under which a definition is selected, or the reason why it has none.
Outcome = str | RidgelineError
MAX_UPLOAD_MB = 5
_OUTCOME = "own_outcome_"
#: Behind the names of the visitor's own definitions.
OWN = " (yours)"


def own_texts(kind: Kind) -> dict[str, str]:
    """The visitor's own definitions, config.json or YAML by name."""
    return st.session_state.setdefault(f"own_{kind}", {})


def attach(setup: Setup) -> Setup:
    """The setup with its own model and system, if it names such, and the visitor's data folder."""
    s, (folder, state) = setup.scenario, visitor.own_edition()
    system = own_texts("systems").get(s.system, "")
    setup = replace(setup, model_config=config_of(s.model), system_yaml=system)
    return replace(setup, own_folder=folder, own_edition=state)


def config_of(model: str) -> str:
    """The config.json that a name stands for: the visitor's, or a hub model's in the hub's cache.

    "" for a shipped name, and for a hub model that is not here.
    """
    if text := own_texts("models").get(model):
        return text
    name = hub_id(model)
    config = cached_config(name) if name else None
    return json.dumps(config) if config else ""


def keep(kind: Kind, name: str, content: bytes | str, place: str = "") -> None:
    """Store a definition that was uploaded, pasted or typed, and its outcome for `show_outcome`.

    place: where it was given, the kind's own form by default.
    """
    key = f"{_OUTCOME}{place or kind}"
    try:
        st.session_state[key] = add(kind, name, content)
    except RidgelineError as error:
        st.session_state[key] = error


def is_read(place: str) -> bool:
    """Whether a definition was stored, or refused, from a place."""
    return f"{_OUTCOME}{place}" in st.session_state


def show_outcome(kind: Kind, place: str = "") -> None:
    """Draw the error of the latest definition from a place, or its name and a button to use it."""
    outcome: Outcome | None = st.session_state.get(f"{_OUTCOME}{place or kind}")
    if isinstance(outcome, RidgelineError):
        say_error(outcome)
    elif outcome:
        st.success(f"Kept for this session as {plain(outcome)}.", icon=":material/check:")
        st.button("Use it now", on_click=choose(kind, outcome), key=f"use_{place or kind}")


def add(kind: Kind, name: str, content: bytes | str) -> str:
    """Check a definition and store it for the session; returns the name by which it is selected."""
    words = _decoded(name, content)
    if kind == "models":
        config = json_object(words)
        model_registry.load(config)
        label = f"{name or config.get('model_type', 'model')}{OWN}"
    else:
        label = f"{hardware_db.load_yaml(words).slug}{OWN}"
    own_texts(kind)[label] = words
    return label


def _decoded(name: str, content: bytes | str) -> str:
    """The text of an upload; for a GGUF file the config.json that its header corresponds to."""
    if isinstance(content, bytes) and content.startswith(MAGIC):
        return json.dumps(gguf_config(BytesIO(content)))
    if len(content) > MAX_UPLOAD_MB * 2**20:
        raise InvalidValue(f"{name} is larger than {MAX_UPLOAD_MB} MiB, which no config.json is")
    try:
        return content if isinstance(content, str) else content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidValue(f"{name} is not UTF-8 text; upload the config.json or YAML") from None


def choose(kind: Kind, label: str) -> Callable[[], None]:
    """A callback that puts a model or system of this name into the scenario."""
    return partial(st.session_state.update, {kind.removesuffix("s"): label})


def system_yaml(name: str, figures: Mapping[str, float]) -> str:
    """The YAML of a system typed into a form.

    figures: by the schema's path, in its units; zero is unknown.
    """
    slug = "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())[:60]
    document: dict[str, Any] = {
        "id": slug or "my-system", "name": name or "My system", "vendor": "own", "kind": "gpu",
        "family": "own", "sources": {"form": {"title": "Typed into the dashboard"}},
    }  # fmt: skip
    stated = {path: value for path, value in figures.items() if value}
    if "links.scale_up.gb_per_s" not in stated:
        stated = {path: v for path, v in stated.items() if not path.startswith("links.")}
    for path, value in stated.items():
        *parents, last = path.split(".")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = {"value": value, "source": "form", "kind": "assumed", "note": "as typed"}
    if tier := document.get("links", {}).get("scale_up"):
        tier["name"] = "scale-up link"
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


_ERROR = "hub_error"


def ask_button(model: str) -> None:
    """Draw the button if `model` is a hub address whose config is not cached."""
    if hub_id(model) is None or shipped_page(model) or config_of(model):
        return
    st.button(
        "Ask the Hugging Face hub", on_click=_ask, args=(model,), key="ask_hub", width="stretch",
        icon=":material/cloud_download:",
        help="Fetches the model's config.json, a few kilobytes, and keeps it for this session.",
    )  # fmt: skip
    asked, message = st.session_state.get(_ERROR, ("", ""))
    if asked == model:
        st.error(with_code(message), icon=":material/error:")


def _ask(model: str) -> None:
    """Fetch the config of a hub address and store it, or the error, for the session; a callback."""
    try:
        config = hub_config(str(hub_id(model)))
        own_texts("models")[model] = json.dumps(config)
    except RidgelineError as error:
        st.session_state[_ERROR] = model, str(error)
