"""Garbage collection of the server's process."""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_loaded(page: str) -> None:
    """Leave out of later collections what is loaded after the first full run of a page.

    Streamlit collects after every run, and a collection walks every object there is: 140 ms once
    the libraries are loaded, 5 ms of what a run itself leaves.

    page: names the call; a second one does nothing.
    """
    gc.collect()
    gc.freeze()
