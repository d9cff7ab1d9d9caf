"""Files of a job's folder: the order, its progress, and its outcome.

    order.pickle  progress.json  cancel  outcome.json  result.pickle

The server writes the order and `cancel`, the worker the rest; each file is written atomically.
"""

import importlib
import json
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: `work(argument, progress, cancelled)`, see `genz_core.common.progress`.
Work = Callable[..., Any]

_ORDER, _RESULT = "order.pickle", "result.pickle"
_PROGRESS, _OUTCOME, _CANCEL = "progress.json", "outcome.json", "cancel"
#: Of pickles; arrays read from one of 5 are views of buffers, three more objects each.
_PROTOCOL = 4


@dataclass(frozen=True, slots=True)
class Order:
    """The work of a worker.

    work: "module:function".  alone: file whose lock it holds meanwhile, None for none.
    memory_bytes: limit of its process.  result_bytes: limit of its pickled result.  niceness:
    added to the process's.
    overlay: folder laid over the user's data folder meanwhile, None for none.
    """

    work: str
    argument: Any
    memory_bytes: int
    result_bytes: int
    niceness: int = 0
    alone: Path | None = None
    overlay: Path | None = None

    def function(self) -> Work:
        """The function that the order names."""
        module, _, name = self.work.partition(":")
        work: Work = getattr(importlib.import_module(module), name)
        return work


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files in the folder of one job."""

    folder: Path

    def write_order(self, order: Order) -> None:
        """Write the order.  Raises `OSError`."""
        self._write_pickle(_ORDER, order)

    def read_order(self) -> Order:
        """Read the order and delete its file, since it may hold a large upload."""
        with (self.folder / _ORDER).open("rb") as file:
            order: Order = pickle.load(file)
        (self.folder / _ORDER).unlink()
        return order

    def write_progress(self, share: float, what: str) -> None:
        """Write the finished share, 0 to 1, and the current piece of work."""
        self._write_json(_PROGRESS, [share, what])

    def progress(self) -> tuple[float, str] | None:
        """The latest progress, None if there is none yet."""
        content = self._read_json(_PROGRESS)
        return (float(content[0]), str(content[1])) if content else None

    def ask_to_stop(self) -> None:
        """Ask the work to stop after its current step."""
        (self.folder / _CANCEL).touch()

    def is_asked_to_stop(self) -> bool:
        """Whether `ask_to_stop` was called."""
        return (self.folder / _CANCEL).exists()

    def write_result(self, result: Any) -> int:
        """Write a result; returns its size in bytes."""
        return self._write_pickle(_RESULT, result)

    def read_result(self) -> tuple[Any, int]:
        """Read a result; returns it with the size of its file in bytes."""
        with (self.folder / _RESULT).open("rb") as file:
            return pickle.load(file), os.fstat(file.fileno()).st_size

    def write_outcome(self, error: str = "") -> None:
        """Record that the work has ended.  error: why it failed, in a sentence; "" for a result."""
        self._write_json(_OUTCOME, {"error": error})

    def error(self) -> str | None:
        """The reason why the job failed, "" if it has a result, None while it runs."""
        content = self._read_json(_OUTCOME)
        return None if content is None else str(content["error"])

    def _write_pickle(self, name: str, value: Any) -> int:
        draft = self.folder / f"{name}.part"
        with draft.open("wb") as file:
            pickle.dump(value, file, protocol=_PROTOCOL)
        size = draft.stat().st_size
        os.replace(draft, self.folder / name)
        return size

    def _write_json(self, name: str, value: Any) -> None:
        draft = self.folder / f"{name}.{os.getpid()}.part"
        draft.write_text(json.dumps(value), encoding="utf-8")
        os.replace(draft, self.folder / name)

    def _read_json(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
