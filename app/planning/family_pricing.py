"""Price the families of a plan one by one, here, in processes or on a cluster, and store the
results.

Processes exchange and files store only arrays and texts; whoever prices a family resolves its names
again.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from app.planning import aggregated, disaggregated
from app.planning.candidates import Candidates
from app.planning.families import Family, LeftOut, families
from app.planning.space import kinds
from app.question.query import Query
from app.simulation.executor import Where, outcomes
from genz_core.common.progress import Cancel, Cancelled, Progress
from genz_core.errors import RidgelineError
from hardware_db.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class Priced:
    """The priced candidates of a family, without the family itself.

    arrays: columns by name, and "status".  messages: as `Candidates`.  why: reason if it could not
    be priced, otherwise "".
    """

    arrays: dict[str, Any]
    messages: dict[int, str]
    why: str = ""

    def of(self, family: Family) -> Candidates:
        """The candidates, attached to their family."""
        columns = {name: one for name, one in self.arrays.items() if name != "status"}
        status = self.arrays["status"]
        numbers = np.zeros(len(status), dtype=np.intp)
        return Candidates((family,), numbers, columns, status, self.messages)


def every_family(query: Query) -> tuple[list[Family], tuple[LeftOut, ...]]:
    """The families of the requested kinds, and the combinations that were left out.

    Raises:
        RidgelineError: as `families`.
    """
    found, left = families(query)
    wanted = kinds(query.question)
    every: list[Family] = list(found) if "aggregated" in wanted else []
    if "disaggregated" in wanted:
        every += disaggregated.pairs(found, query)
    return every, left


def priced(
    query: Query,
    every: Sequence[Family],
    where: Where,
    folder: Path | None,
    progress: Progress,
    cancelled: Cancel,
) -> list[Priced]:
    """The priced candidates of every family, in order.

    folder: priced families are stored there and reused, None to store nothing.

    Raises:
        Cancelled: between two families; families priced so far are kept.
        MeasurementError: a worker died, or no cluster answers; families priced so far are kept.
    """
    key = _digest(query)
    kept = None if folder is None else folder / key
    earlier = {} if kept is None else {at: _read(kept, at) for at in range(len(every))}
    found = {at: one for at, one in earlier.items() if one is not None}
    left = [at for at in range(len(every)) if at not in found]
    if where.here(len(left)):
        done = outcomes(price_family, {at: (every[at], query) for at in left}, where, cancelled)
    else:
        done = outcomes(_price_number, {at: (query, key, at) for at in left}, where, cancelled)
    for at, one in done:
        found[at] = one
        if kept is not None:
            _write(kept, at, one)
        progress(len(found) / len(every), str(every[at]))
    if len(found) < len(every):
        raise Cancelled(str(every[next(at for at in left if at not in found)]))
    return [found[at] for at in range(len(every))]


def price_family(family: Family, query: Query) -> Priced:
    """The candidates of a family, or the reason why there are none."""
    of_kind = disaggregated if family.prefill is not None else aggregated
    try:
        candidates = of_kind.price(family, query)
    except RidgelineError as error:
        return Priced({}, {}, str(error))
    arrays = {**candidates.columns, "status": candidates.status}
    return Priced(arrays, dict(candidates.messages))


#: Families of the plan that this process priced last, by key: resolving their names takes seconds.
_LATEST: dict[str, list[Family]] = {}


def _price_number(query: Query, key: str, at: int) -> Priced:
    """The candidates of a family by index; runs in a worker."""
    if key not in _LATEST:
        _LATEST.clear()
        _LATEST[key] = every_family(query)[0]
    return price_family(_LATEST[key][at], query)


# ------------------------------------------------------------------------------- what is kept


def _digest(query: Query) -> str:
    """A digest that identifies the set of families of a plan."""
    told = f"{query.question}{dict(query.several)}{dict(query.objects)}{sorted(query.given)}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _path(folder: Path, at: int) -> Path:
    return folder / f"family-{at}.npz"


def _write(folder: Path, at: int, one: Priced) -> None:
    said = json.dumps({"messages": one.messages, "why": one.why})
    with write_whole(_path(folder, at)) as draft, draft.open("wb") as file:
        np.savez(file, said=np.array(said), **one.arrays)


def _read(folder: Path, at: int) -> Priced | None:
    """A stored family; None if there is none, or its file is damaged."""
    try:
        with np.load(_path(folder, at), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        said = json.loads(str(arrays.pop("said")))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
    messages = {int(number): sentence for number, sentence in said["messages"].items()}
    return Priced(arrays, messages, said["why"])
