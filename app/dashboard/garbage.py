"""Garbage in the server's process: collected, and what Streamlit would keep of widgets.

Streamlit requests a full collection after every run, which traverses every object: 140 ms with the
libraries and the models loaded.  Once a collection takes long, its survivors are therefore skipped
by later ones, so that each traverses only what was made lately; not sooner, because every run
survives the collection at its own end.  From time to time a full traversal frees ended sessions.

After each collection what is free goes back to the system, which takes about 1 ms.
"""

import ctypes
import functools
import gc
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from streamlit.runtime.scriptrunner import get_script_run_ctx

_FULL = 2  # the generation that Streamlit collects
_LONG_S = 0.005  # processor time of a collection whose survivors are skipped by later ones
_REST = 50.0  # processor time between two full traversals over that of one


@dataclass(slots=True)
class Survivors:
    """A callback of `gc` that freezes the survivors of full collections that take long.

    everything: whether the next one traverses all objects.  began_s: processor time at its start.
    rests_until_s: before that processor time of the process nothing is thawed.
    """

    everything: bool = True
    began_s: float = 0.0
    rests_until_s: float = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self.began_s = time.thread_time()
            return
        took_s = time.thread_time() - self.began_s
        if self.everything or took_s > _LONG_S:
            gc.freeze()
        _give_back()
        if self.everything:
            self.everything, self.rests_until_s = False, time.process_time() + _REST * took_s
        elif time.process_time() > self.rests_until_s:
            gc.unfreeze()
            self.everything = True


def _give_back() -> None:
    """Give free memory back to the system: glibc does so by itself only at the end of its heap."""
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)


@functools.cache
def freeze_survivors() -> None:
    """Keep full collections short from now on; a second call does nothing."""
    gc.callbacks.append(Survivors())


def forget_widgets() -> None:
    """Let go of the widgets that the last run of this session did not draw; call it when a run
    begins.

    Streamlit forgets their values, but keeps their callbacks, with the answers and figures in them,
    as long as the session.
    """
    context = get_script_run_ctx()
    if context is None:
        return
    with suppress(AttributeError):  # private names: another release may not have them
        state = context.session_state._state
        widgets, before = state._new_widget_state, state._old_state
        for gone in widgets.widget_metadata.keys() - before.keys() - widgets.states.keys():
            del widgets.widget_metadata[gone]
