"""Completion of the typed question: a script beside the strip's box, served by this server.

Streamlit serves the files of a component from a folder that a manifest names; a script inside the
page would be refused by the server's own security header.
"""

from pathlib import Path

import streamlit as st
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from app.line.unread import known_words

_HERE = Path(__file__).parent
_NAME = "ridgeline.completion"


def complete(box: str, opener: str, *, opened: bool) -> None:
    """Complete what is typed into a text box, and make the Tab key start there on a fresh page.

    box, opener: keys of the box and of the button that opens it and moves the focus to it.
    opened: whether the box is drawn; completions are sent only then.
    """
    manager = get_bidi_component_manager()
    if not isinstance(manager, BidiComponentManager):  # a page without a server, as in tests
        return
    if manager.get_component_asset_root(_NAME) is None:
        package, name = _NAME.split(".")
        manifest = ComponentManifest(package, "1", [ComponentConfig(name, _HERE.name)])
        manager.register_from_manifest(manifest, _HERE.parent)
    draw = st.components.v2.component(_NAME, js="completion.js", isolate_styles=False)
    words = known_words() if opened else []
    # without a key of its own: Streamlit makes a class for the state of a component with one, again
    # for each box that a page draws
    with st.container(key="question_words"):
        draw(data={"box": box, "opener": opener, "words": words})
