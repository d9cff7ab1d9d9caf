"""Garbage collection of the server's process.

Streamlit asks for a full collection after every run, and one walks every object there is: 140 ms
with the libraries and the models loaded.  What a collection leaves is here to stay, so once it
takes long it is left out of the next ones, and looked through again from time to time: a session
that ended is then garbage.
"""

from __future__ import annotations

import functools
import gc
import time
from dataclasses import dataclass, field

_FULL = 2  # the generation that Streamlit collects
_LONG_S = 0.008
_AGAIN_S = 30.0


@dataclass(slots=True)
class Survivors:
    """A callback of `gc` that freezes what a long collection has left.

    began_s: processor time at its start.  thawed_s: when everything was last looked through.
    """

    began_s: float = 0.0
    thawed_s: float = field(default_factory=time.monotonic)

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self.began_s = time.thread_time()
        elif time.monotonic() - self.thawed_s > _AGAIN_S:
            self.thawed_s = time.monotonic()
            gc.unfreeze()
        elif time.thread_time() - self.began_s > _LONG_S:
            gc.freeze()


@functools.cache
def freeze_survivors() -> None:
    """Keep full collections short from now on; a second call does nothing."""
    gc.callbacks.append(Survivors())
