"""The queue of a server: jobs start in order of submission, up to a number per lane."""

import json
import shutil
import threading
import time
import uuid
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

from app.jobs.job import Job
from app.jobs.job_files import JobFiles, Order, Work
from app.jobs.lanes import Lane
from genz_core.common.file_lock import locked, try_lock
from genz_core.errors import InvalidValue
from hardware_db.data_folder import overlaid, users_folder

#: Most waiting jobs in total, and most waiting or running jobs of one visitor.
MOST_WAITING, MOST_OF_ONE = 20, 3
_LOCK, _ABOUT = "lock", "about.json"
_MAKING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A job that an earlier server did not finish.

    lane: its name.  asked: submission time, seconds since 1970.  share, what: its progress.
    overlay: folder that was laid over the user's data folder and identifies the visitor; "" for
    none.
    """

    title: str
    lane: str
    asked: float
    share: float
    what: str
    overlay: str


@dataclass(eq=False)
class Queue:
    """The jobs of this server, in its own folder below `root`.

    interrupted: unfinished jobs of servers that have ended; their files are removed.
    """

    root: Path
    interrupted: list[Interrupted] = field(default_factory=list)
    _folder: Path = field(init=False)
    _held: IO[bytes] | None = field(init=False)
    _guard: threading.RLock = field(default_factory=threading.RLock)
    _waiting: list[Job] = field(default_factory=list)
    _running: list[Job] = field(default_factory=list)
    _by_question: WeakValueDictionary[Hashable, Job] = field(default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self._folder = self.root / uuid.uuid4().hex
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self.root / _LOCK):
                self._folder.mkdir(mode=0o700)
                self._held = try_lock(self._folder / _LOCK)
                self.interrupted += _left_behind(self.root)
        except OSError as error:
            raise _refusal(self.root, error) from None

    @property
    def under_way(self) -> list[Job]:
        """Running jobs, then waiting ones, in their order."""
        with self._guard:
            return [*self._running, *self._waiting]

    def lost(self, lane: Lane) -> list[Interrupted]:
        """Interrupted jobs of a lane that were submitted under the present overlay."""
        return [
            job for job in self.interrupted if (job.lane, job.overlay) == (lane.name, _overlay())
        ]

    def submit(
        self,
        work: Work,
        argument: Any,
        title: str,
        lane: Lane,
        visitor: str = "",
        question: Hashable = None,
    ) -> Job:
        """Queue `work(argument, progress, cancelled)`; it starts at once if its lane is free.

        It sees the data folders of the visitor who submits it.

        Args:
            work: a module-level function.
            argument: any value that pickles.
            visitor: of a shared server, with a limit on jobs at once; "" for no such limit.
            question: everything that decides the result.  A job for the same question is joined
                instead (`Job.join`) while somebody waits for it.  None: never joined.

        Raises:
            InvalidValue: the queue is full, the visitor has too many jobs, or the data folder
                cannot be written.
        """
        with self._guard:
            asked_before = self._by_question.get(question)
            if asked_before is not None and asked_before.join():
                return asked_before
            if len(self._waiting) >= MOST_WAITING:
                raise InvalidValue(
                    f"{MOST_WAITING} jobs are waiting already; try again when some of them have "
                    f"ended"
                )
            own = [job for job in self.under_way if visitor and job.visitor == visitor]
            if len(own) >= MOST_OF_ONE:
                raise InvalidValue(
                    f"{len(own)} of your jobs are running or waiting; try again when one of them "
                    f"has ended: " + ", ".join(job.title for job in own)
                )
            folder = self._folder / uuid.uuid4().hex
            job = Job(title, work.__module__, lane, folder, self._leave, visitor)
            alone = self.root / f"{lane.name}.lock" if lane.alone else None
            name = f"{work.__module__}:{work.__qualname__}"
            caps = lane.memory_bytes, lane.result_bytes, lane.niceness
            order = Order(name, argument, *caps, alone, overlaid())
            try:
                job.folder.mkdir(mode=0o700)
                about = {"title": title, "lane": lane.name, "asked": time.time()}
                about["overlay"] = _overlay()
                (job.folder / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
                job.files.write_order(order)
            except OSError as error:
                raise _refusal(self.root, error) from None
            self._waiting.append(job)
            if question is not None:
                self._by_question[question] = job
            self._start()
        return job

    def _start(self) -> None:
        """Start the waiting jobs whose lanes are free, and number the others."""
        for job in list(self._waiting):
            if sum(other.lane == job.lane for other in self._running) < job.lane.at_once:
                self._waiting.remove(job)
                self._running.append(job)
                job.place = 0
                threading.Thread(target=self._attend, args=(job,), daemon=True).start()
        places: dict[str, int] = {}
        for job in self._waiting:
            job.place = places[job.lane.name] = places.get(job.lane.name, 0) + 1

    def _attend(self, job: Job) -> None:
        """Run a job to its end, then start the next of its lane."""
        try:
            job.run()
        finally:
            with self._guard:
                self._running.remove(job)
                self._start()

    def _leave(self, job: Job) -> bool:
        """Remove a waiting job from the queue; returns whether it was waiting."""
        with self._guard:
            if job not in self._waiting:
                return False
            self._waiting.remove(job)
            self._start()
            return True


def _left_behind(root: Path) -> list[Interrupted]:
    """Unfinished jobs of servers that have ended; removes their folders."""
    found = []
    for server in root.iterdir():
        if not server.is_dir() or (held := try_lock(server / _LOCK)) is None:
            continue
        with held:
            found += [job for folder in server.iterdir() if (job := _interrupted(folder))]
            shutil.rmtree(server, ignore_errors=True)
    return sorted(found, key=lambda job: job.asked)


def _interrupted(folder: Path) -> Interrupted | None:
    """The unfinished job in a folder, None if it had ended or its files are damaged."""
    files = JobFiles(folder)
    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        share, what = files.progress() or (0.0, "waiting")
        unfinished = files.error() is None
        asked = float(about["asked"])
        job = Interrupted(about["title"], about["lane"], asked, share, what, about["overlay"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return job if unfinished else None


def _overlay() -> str:
    return str(overlaid() or "")


def _refusal(root: Path, error: OSError) -> InvalidValue:
    return InvalidValue(f"no job can be kept in {root}: {error.strerror or error}")


def server_queue() -> Queue:
    """The queue of this server in the user's data folder.

    Raises:
        InvalidValue: the folder cannot be written.
    """
    with _MAKING:
        return _queue(users_folder() / "jobs")


@lru_cache(maxsize=8)
def _queue(root: Path) -> Queue:
    return Queue(root)
