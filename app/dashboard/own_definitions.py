"""Models and systems that a visitor brings: checked text, kept for the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

import hardware_db
import model_registry
from app.scenario.setup import Setup, parse_config
from genz_core.errors import InvalidValue, RidgelineError

Kind = Literal["models", "systems"]
MAX_UPLOAD_MB = 5
_SUFFIX = " (yours)"


def own(kind: Kind) -> dict[str, str]:
    """What this visitor brought, name to text."""
    return st.session_state.setdefault(f"own_{kind}", {})


def attach(setup: Setup) -> Setup:
    """The setup with the text of what it names and this visitor brought."""
    s = setup.scenario
    config, sheet = own("models").get(s.model, ""), own("systems").get(s.system, "")
    return replace(setup, model_config=config, system_yaml=sheet)


def uploader() -> None:
    """The sidebar's place to bring a file."""
    with st.expander("Your own model or system", icon=":material/upload_file:", key="own_open"):
        file = st.file_uploader(
            "config.json or system YAML",
            type=["json", "yaml", "yml"],
            max_upload_size=MAX_UPLOAD_MB,
            key="own_file",
        )
        if file is not None:
            kind: Kind = "models" if file.name.endswith(".json") else "systems"
            _keep_file(kind, file)
        st.page_link(
            "views/library/models.py", label="Paste a config.json", icon=":material/article:"
        )
        st.page_link("views/library/hardware.py", label="Describe hardware", icon=":material/dns:")


def _keep_file(kind: Kind, file: UploadedFile) -> None:
    """Read an upload once, though it stays in its box while the page is drawn again."""
    if st.session_state.get("own_read") != file.file_id:
        st.session_state["own_read"] = file.file_id
        keep(kind, file.name.rpartition(".")[0], file.getvalue())
    latest = st.session_state.get(f"latest_{kind}")
    if isinstance(latest, RidgelineError):
        st.error(str(latest))
    elif latest:
        st.button("Use it now", on_click=choose(kind, latest), key="use_uploaded", width="stretch")


def keep(kind: Kind, name: str, content: bytes | str) -> None:
    """Keep what was uploaded, pasted or typed; `report` says how it went."""
    try:
        st.session_state[f"latest_{kind}"] = take(kind, name, content)
    except RidgelineError as error:
        st.session_state[f"latest_{kind}"] = error


def report(kind: Kind) -> None:
    """Say what became of the latest thing brought, and offer to use it."""
    latest = st.session_state.get(f"latest_{kind}")
    if isinstance(latest, RidgelineError):
        st.error(str(latest), icon=":material/error:")
    elif latest:
        st.success(f"Kept for this session as {latest}.", icon=":material/check:")
        st.button("Use it now", on_click=choose(kind, latest), key=f"use_latest_{kind}")


def take(kind: Kind, name: str, content: bytes | str) -> str:
    """Check text that a visitor brought and keep it for the session; returns its name.

    Raises:
        RidgelineError: it is no model or system that can be read.
    """
    words = _decoded(name, content)
    if kind == "models":
        config = parse_config(words)
        model_registry.load(config)
        label = f"{name or config.get('model_type', 'model')}{_SUFFIX}"
    else:
        label = f"{hardware_db.load_yaml(words).slug}{_SUFFIX}"
    own(kind)[label] = words
    return label


def _decoded(name: str, content: bytes | str) -> str:
    try:
        return content if isinstance(content, str) else content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidValue(f"{name} is not UTF-8 text; upload the config.json or YAML") from None


def choose(kind: Kind, label: str) -> Callable[[], None]:
    """A callback that puts a model or system into the scenario."""

    def chosen() -> None:
        st.session_state["model" if kind == "models" else "system"] = label

    return chosen
