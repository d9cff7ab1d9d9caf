"""What boxes for uploads share: names told apart, contents known again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import streamlit as st


def unlike(name: str, taken: Mapping[str, object]) -> str:
    """The name, numbered where another upload has the same."""
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


@st.cache_data(max_entries=64, show_spinner=False)
def digest(file_id: str, _content: bytes) -> str:
    """Hash of a file's content, by the id that the browser's upload has."""
    return hashlib.sha256(_content).hexdigest()
