"""The user's own files, read one by one; a damaged one is left out, with a sentence on why.

A prediction without such a file gives a `LeftOutWarning`; `hardware_db.left_out()` lists all
sentences.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from genz_core.errors import InvalidValue, RidgelineError, file_problem
from hardware_db import yaml_document
from hardware_db.data_folder import data_folders, dated_files

Record = TypeVar("Record")


class LeftOutWarning(UserWarning):
    """Warns of a damaged user file; predictions are made without it."""


@dataclass(frozen=True, slots=True)
class OwnFiles(Generic[Record]):
    """The user's files that could be read.

    records: by the stem of the file name.  left_out: reasons why files are left out, by stem.
    """

    records: dict[str, Record] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def announced(self) -> OwnFiles[Record]:
        """The same object, after a warning about each file that is left out."""
        for sentence in self.left_out.values():
            warnings.warn(sentence, LeftOutWarning, stacklevel=3)
        return self


def read_all(pattern: str, read: Callable[[Path, int], Record], remedy: str) -> OwnFiles[Record]:
    """The records of the user's files that fit a pattern; those of later folders replace those of
    earlier ones.

    Args:
        pattern: below the data folders, "systems/*.yaml".
        read: function of a file and its modification time that returns the record; raises
            `RidgelineError`.
        remedy: advice on a damaged file, "mend it or move it away".
    """
    found: OwnFiles[Record] = OwnFiles()
    for path, modified in _dated(pattern):
        found.records.pop(path.stem, None)
        found.left_out.pop(path.stem, None)
        try:
            found.records[path.stem] = read(path, modified)
        except RidgelineError as error:
            found.left_out[path.stem] = left_out(path, str(error), remedy)
    return found


def left_out(path: Path, reason: str, remedy: str) -> str:
    """The sentence on a file that is left out; it does not reveal the path of the data folder."""
    file = path.relative_to(next(f for f in data_folders() if path.is_relative_to(f)))
    reason = reason.replace(str(path), path.name)
    return f"{file.as_posix()} of the data folder is left out: {reason}; {remedy}"


def read_text(path: Path, label: str = "it") -> str:
    """The text of a file of bounded size.

    label: name of the file in messages.

    Raises:
        InvalidValue: it cannot be opened, is too large, or is not UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(yaml_document.MAX_BYTES + 1)
        return raw.decode("utf-8")
    except OSError as error:
        raise InvalidValue(f"{label}: {file_problem(error)}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{label} is not UTF-8 text") from None


def _dated(pattern: str) -> Iterator[tuple[Path, int]]:
    for folder in data_folders():
        yield from dated_files(folder, pattern)
