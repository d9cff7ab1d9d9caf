"""Start a server with the user's command, load it with a benchmark client, and stop it.

A server that does not start, or dies under load, is a valid result: the setting failed, and the
last lines of its log say why.  A client that fails says nothing about the setting.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.planning.targets import FIGURES
from app.question.parameters import PARAMETERS
from app.question.query import Query
from app.tuning.outcome import Outcome
from app.tuning.space import Setting, devices_of
from app.tuning.template import checked, filled, names
from genz_core.common.progress import Cancel, Cancelled, Progress
from genz_core.errors import InvalidValue, MeasurementError, ReportError
from profilers.collect import programs
from profilers.collect.serving import clients, endpoint, local_servers
from profilers.collect.serving.client import Server
from profilers.collect.serving.endpoint_load import EndpointLoad
from profilers.comparison import account
from profilers.serving_results import ServingMeasurement, read_results

RESULT, SERVER_LOG, CLIENT_LOG = "result.json", "server.log", "client.log"
_LINES, _LONGEST_LINE = 12, 400
#: Paths polled until the server is ready, unless another is given.
_READY = ("health", "v1/models")
#: Known clients by name; any other value is a command.
CLIENTS = (endpoint.AUTO, endpoint.OWN, *(client.name for client in clients.CLIENTS))


@dataclass(frozen=True, slots=True)
class Commands:
    """How settings are run.

    server: command that starts the server, see `app.tuning.template`.  client: one of `CLIENTS`, or
    a command that generates the load and writes `{result}`.  health: path that answers 200 once the
    server is ready, "" for /health or /v1/models.  served: the model name on the server, "" for its
    only model.  tokenizer: for a client given by name.  start_s, client_s: longest start and
    longest run of the client.

    Raises:
        InvalidValue: an invalid command, or one without a port or a result file.
        MeasurementError: a program is not installed.
    """

    server: str
    client: str = endpoint.AUTO
    health: str = ""
    served: str = ""
    tokenizer: str = ""
    start_s: float = 900.0
    client_s: float = 3600.0

    def __post_init__(self) -> None:
        if not {"port", "address"} & set(names(checked(self.server))):
            raise InvalidValue(
                "the server's command lacks {port}, on which the server has to listen"
            )
        commands = [self.server]
        if self.client not in CLIENTS:
            if "result" not in names(checked(self.client)):
                raise InvalidValue(
                    "the client's command names no {result}, the file that it writes: add it, or "
                    f"give one of {', '.join(CLIENTS)}"
                )
            commands.append(self.client)
        elif self.client not in (endpoint.AUTO, endpoint.OWN):
            clients.named(self.client)
        for command in commands:
            program = shlex.split(command)[0]
            if "{" not in program and shutil.which(program) is None:
                raise MeasurementError(f"{program} was not found: install it, or give its path")


@dataclass(frozen=True)
class RealServer:
    """A runner of settings."""

    query: Query
    commands: Commands

    def __call__(
        self, setting: Setting, folder: Path | None, progress: Progress, cancelled: Cancel
    ) -> Outcome:
        """Start the server of a setting, load it, and stop it.

        Raises:
            MeasurementError: a program cannot be run at all.  Cancelled: `cancelled` returned True.
        """
        if folder is not None:
            return self._run(setting, folder.absolute(), progress, cancelled)
        with tempfile.TemporaryDirectory(prefix="ridgeline-tune-") as name:
            return self._run(setting, Path(name), progress, cancelled)

    def values(self, setting: Setting, folder: Path, port: int) -> dict[str, Any]:
        """Values for the placeholders of the commands."""
        q = self.query.question
        return {
            **{name: getattr(q, name) for name in PARAMETERS},
            **setting,
            "port": port,
            "address": f"http://127.0.0.1:{port}",
            "folder": str(folder),
            "result": str(folder / RESULT),
        }

    def _run(
        self, setting: Setting, folder: Path, progress: Progress, cancelled: Cancel
    ) -> Outcome:
        values, log = self.values(setting, folder, local_servers.free_port()), folder / SERVER_LOG
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with programs.background(filled(self.commands.server, values), log, environment) as child:
            progress(0.05, "starting the server")
            health = self.commands.health
            ready = (health.strip("/"),) if health else _READY
            pages = [f"{values['address']}/{page}" for page in ready]
            if why := local_servers.why_not_ready(child, pages, self.commands.start_s, cancelled):
                return Outcome("failed", why=why, log=_tail(log))
            progress(0.4, "under load")
            return self._loaded(child, setting, values, folder, cancelled)

    def _loaded(
        self,
        child: subprocess.Popen[bytes],
        setting: Setting,
        values: Mapping[str, Any],
        folder: Path,
        cancelled: Cancel,
    ) -> Outcome:
        def stop() -> bool:
            return cancelled() or child.poll() is not None

        died = "the server ended with code {} under the load"
        try:
            found = self._measured(values, folder, stop)
        except Cancelled:
            if child.poll() is None:
                raise
            return Outcome("failed", why=died.format(child.poll()), log=_tail(folder / SERVER_LOG))
        except (MeasurementError, ReportError) as error:
            if child.poll() is not None:
                why = died.format(child.poll())
                return Outcome("failed", why=why, log=_tail(folder / SERVER_LOG))
            return Outcome("no result", why=str(error), log=_tail(folder / CLIENT_LOG))
        return of_measurement(found, devices_of(self.query, setting))

    def _measured(
        self, values: Mapping[str, Any], folder: Path, stop: Cancel
    ) -> ServingMeasurement:
        """The measurement made by the client."""
        commands, result = self.commands, folder / RESULT
        if commands.client in CLIENTS:
            q = self.query.question
            load = EndpointLoad(
                int(q.concurrency or 0), float(q.rate or 0.0), int(q.requests or 0), q.isl, q.osl,
                seed=q.seed % 2**31,
            )  # fmt: skip
            server = Server(str(values["address"]), commands.served, commands.client_s)
            own = folder / "client"
            own.mkdir(exist_ok=True)
            return endpoint.measure(
                server, load, own, commands.client, commands.tokenizer, cancelled=stop
            ).measurement
        code = programs.run(
            filled(commands.client, values), folder / CLIENT_LOG, "the client", commands.client_s,
            stop,
        )  # fmt: skip
        if code:
            raise MeasurementError(f"the client ended with code {code}")
        if not result.exists():
            raise MeasurementError(f"the client wrote no {RESULT}: is {{result}} the right option?")
        return read_results(result)[-1]


def of_measurement(found: ServingMeasurement, devices: float) -> Outcome:
    """The outcome of a client's result, after its consistency checks."""
    if wrong := account.failed(account.of_result(found)):
        return Outcome("contradicts", why="; ".join(check.sentence for check in wrong))
    latencies = {"ttft": found.ttft_s, "tpot": found.decode_tpot_s, "e2e": found.e2e_s}
    figures: dict[str, float | None] = {}
    for name, spread in latencies.items():
        figures[name] = spread.mean
        figures |= {f"{name}_p{percent:g}": value for percent, value in spread.at.items()}
    rates = found.throughput
    figures["output_tokens_per_s"] = rates.output_tokens_per_s
    figures["requests_per_s"] = rates.requests_per_s
    if rates.output_tokens_per_s:
        figures["output_tokens_per_s_per_device"] = rates.output_tokens_per_s / devices
    if gap := found.decode_tpot_s.mean:
        figures["interactivity"] = 1.0 / gap
    known = {n: float(v) for n, v in figures.items() if v is not None and n in FIGURES}
    if not known:
        return Outcome("no result", why="the client's result states no figure")
    return Outcome("measured", known)


def _tail(log: Path) -> tuple[str, ...]:
    return local_servers.last_lines(log, _LINES, _LONGEST_LINE)
