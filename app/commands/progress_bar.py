"""A progress bar on standard error for long commands, and a Ctrl-C that keeps results."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import typer

from app.commands.exit_codes import INTERRUPTED
from genz_core.common.progress import Cancelled, Progress


@dataclass(frozen=True, slots=True)
class Running:
    """A running command: `progress` to call, and the event of the first Ctrl-C."""

    progress: Progress
    stop: threading.Event = field(default_factory=threading.Event)

    def cancelled(self) -> bool:
        """Whether the user has stopped the command."""
        return self.stop.is_set()


@contextmanager
def running(label: str) -> Iterator[Running]:
    """Show a progress bar inside the block; the first Ctrl-C sets `stop`, the second ends the
    program.

    A run that is stopped before it has a result exits with code 130.
    """
    with typer.progressbar(length=1000, label=label, file=sys.stderr) as bar:

        def progress(share: float, what: str) -> None:
            if sys.stderr.isatty():  # outside of a terminal, every new label would be a new line
                bar.label = f"{label}: {what}"[:60].ljust(60)
            bar.update(max(int(1000 * share) - bar.pos, 0))

        run = Running(progress)
        with _first_interrupt(run.stop.set):
            try:
                yield run
            except Cancelled as stopped:
                typer.echo(f"\ncancelled at {stopped.at}; nothing was complete", err=True)
                raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _first_interrupt(react: Callable[[], None]) -> Iterator[None]:
    """Call `react` on the first Ctrl-C instead of raising; the second raises as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        typer.echo(
            "\nstopping after the current step; press Ctrl-C again to stop at once", err=True
        )
        react()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
