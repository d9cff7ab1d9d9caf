"""A priced step as Chakra traces, one per device: operators in order, layer by layer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from app.exchange import chakra
from app.exchange.chakra import COLLECTIVES, Node
from app.exchange.network import as_text, network_of
from app.question.query import Query
from app.scenario import results
from app.scenario.results import Estimate
from app.scenario.summary import step_of
from genz_core.errors import InvalidValue, file_problem
from genz_core.graphs import Op
from genz_core.steps.step_estimate import StepEstimate

PHASES = ("prefill", "decode")
_MOST_DEVICES = 1024
#: Bytes of a trace that is read.
_LONGEST = 512 * 2**20


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an operator in a step.

    seconds: predicted.  flops, bytes: of the run on one device.  message_bytes, group, stride: as
    in `genz_core.operators.collective`; group is 1 where nothing is sent.  A message to the next
    stage of a pipeline is of kind send_recv.
    """

    name: str
    kind: str
    layer: int | None
    seconds: float
    flops: float
    bytes: float
    message_bytes: float
    group: int
    stride: int


def runs_of(step: StepEstimate, stages: int = 1) -> tuple[list[Run], ...]:
    """The runs of a step on one device of each pipeline stage, in order.

    The order is input, layers, message to the next stage, output; the host's time is the last run
    of the last stage.  The correction by measured runs scales all of them.  A pipeline's trace is
    that of one micro-batch, without the time that it waits for others.
    """
    ops = list(enumerate(step.graph.ops))
    layers = max(step.graph.layers, 1)
    ends = [(at, op) for at, op in ops if not op.layers and op.kind != "send_recv"]
    sends = [(at, op) for at, op in ops if op.kind == "send_recv"]
    found: tuple[list[Run], ...] = tuple([] for _ in range(stages))
    for at, op in ends:
        if op.stage == "first":
            found[0].extend(_runs(step, at, op, None))
    for layer in sorted({layer for _, op in ops for layer in op.layers}):
        for at, op in ops:
            if layer in op.layers:
                found[layer * stages // layers].extend(_runs(step, at, op, layer))
    for at, op in sends:  # one operator is the chain of messages through all stages
        for run in _runs(step, at, op, None):
            for stage in found[:-1]:
                stage.append(replace(run, seconds=run.seconds / (stages - 1)))
    for at, op in ends:
        if op.stage != "first":
            found[-1].extend(_runs(step, at, op, None))
    found[-1].append(Run("host", "host", None, float(step.host_s[0]), 0.0, 0.0, 0.0, 1, 1))
    return found


def export(query: Query, phase: str) -> dict[str, bytes]:
    """File contents by name for one step of the question: as `files`.

    Raises:
        RidgelineError: as `results.estimate` and `files`.
    """
    answer = results.estimate(query)
    assert isinstance(answer, Estimate), "export supports only a static batch"
    degrees = {name: getattr(query.question, name) for name in ("tp", "pp", "dp", "cp")}
    return files(answer, phase, degrees)


def files(estimate: Estimate, phase: str, devices_of: Mapping[str, int]) -> dict[str, bytes]:
    """File contents by name: one `step.RANK.et` per device, groups of ranks, the network, and a
    note.

    devices_of: the degrees tp, pp, dp, cp of the deployment.

    Raises:
        InvalidValue: an unknown phase, or too many devices.
    """
    if phase not in PHASES:
        raise InvalidValue(f"phase = {phase!r}: choose {' or '.join(PHASES)}")
    devices = int(np.prod(list(devices_of.values())))
    if devices > _MOST_DEVICES:
        raise InvalidValue(f"{devices:,} devices: at most {_MOST_DEVICES:,} have a trace each")
    step = step_of(estimate.engine_estimate, phase)
    stages = runs_of(step, devices_of["pp"])
    apart = stages[0][-1].stride if len(stages) > 1 else devices
    groups = _Groups(devices)
    total_s = float((step.total_s - step.pipeline_s)[0])
    about = {"model": estimate.model, "system": estimate.system, "phase": phase,
             "step_s": total_s}  # fmt: skip
    made = {}
    for rank in range(devices):
        content, stage = BytesIO(), rank // apart % len(stages)
        received = stages[stage - 1][-1] if stage else None
        nodes = _nodes(stages[stage], rank, groups, received)
        said = {**about, "rank": rank} | ({"stage": stage} if len(stages) > 1 else {})
        chakra.write(content, nodes, said)
        made[f"step.{rank}.et"] = content.getvalue()
    made["groups.json"] = json.dumps(groups.members).encode()
    made["network.yml"] = as_text(network_of(estimate.resolved.system, devices)).encode()
    return made


def read_rows(content: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a trace contains, and one row per operator: runs, seconds, FLOPs, bytes, messages.

    Runs that differ only in their layer share a row.  Durations without an exact attribute are in
    whole microseconds.

    Raises:
        InvalidValue: bytes that are not a trace.
    """
    about, nodes = chakra.read(content)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for node in nodes:
        said = node.attributes
        name = str(said.get("operator", node.name))
        row = rows.setdefault((name, node.kind), {
            "name": name, "kind": node.kind, "collective": "", "runs": 0, "predicted_s": 0.0,
            "flops": 0.0, "bytes": 0.0, "message_bytes": 0.0,
        })  # fmt: skip
        row["runs"] += 1
        row["predicted_s"] += _number(node, "seconds", node.duration_us / 1e6)
        row["flops"] += _number(node, "num_ops")
        row["bytes"] += _number(node, "tensor_size")
        row["message_bytes"] += _number(node, "comm_size")
        if node.kind == "collective":
            number = int(_number(node, "comm_type", -1.0))
            row["collective"] = COLLECTIVES[number] if 0 <= number < len(COLLECTIVES) else "unknown"
    return about, list(rows.values())


def document(content: bytes) -> dict[str, Any]:
    """The attributes of a trace and its `rows`.  Raises as `read_rows`."""
    about, rows = read_rows(content)
    return {**about, "rows": rows}


def read_file(path: Path) -> dict[str, Any]:
    """The attributes of a trace file and its `rows`, as `read_rows`.

    Raises:
        InvalidValue: a file that cannot be read, is too large, or is not a trace.
    """
    try:
        if path.stat().st_size > _LONGEST:
            raise InvalidValue(f"{path} is larger than {_LONGEST // 2**20} MiB")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidValue(f"{path}: {file_problem(error)}") from None
    return document(content)


def _number(node: Node, name: str, usual: float = 0.0) -> float:
    """A numeric attribute of a node."""
    value = node.attributes.get(name, usual)
    if isinstance(value, str) or not np.isfinite(value):
        raise InvalidValue(
            f"node {node.id} ({node.name[:40]}): {name} is {str(value)[:40]!r}, no number"
        )
    return float(value)


class _Groups:
    """Groups of communicating ranks, numbered in order of appearance.

    members: the ranks of a group by its number, as text.
    """

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self.members: dict[str, list[int]] = {}
        self._numbers: dict[tuple[int, ...], str] = {}

    def of(self, rank: int, size: int, stride: int) -> str:
        """Number of the group of a rank: `size` ranks, `stride` apart."""
        first = rank - rank // stride % size * stride
        ranks = tuple(first + stride * at for at in range(size))
        if ranks not in self._numbers:
            # ASTRA-sim parses names of groups as positive whole numbers
            number = self._numbers[ranks] = str(len(self._numbers) + 1)
            self.members[number] = list(ranks)
        return self._numbers[ranks]


def _nodes(runs: Sequence[Run], rank: int, groups: _Groups, received: Run | None) -> Iterator[Node]:
    """Nodes of a rank, each depending on the previous one.

    received: message from the previous stage; its time counts where it is sent.
    """
    first = int(received is not None)
    if received is not None:
        said = _message(received, rank - received.stride, rank)
        said |= {"is_cpu_op": False, "operator": received.name, "seconds": 0.0}
        yield Node(0, received.name, "receive", (), 1, said)
    for at, run in enumerate(runs, start=first):
        said = {"is_cpu_op": run.kind == "host", "operator": run.name, "seconds": run.seconds}
        kind = "compute"
        if run.kind == "send_recv":
            kind = "send"
            said |= _message(run, rank, rank + run.stride)
        elif run.group > 1:
            kind = "collective"
            said |= {
                "comm_type": COLLECTIVES.index(run.kind), "comm_size": round(run.message_bytes),
                "pg_name": groups.of(rank, run.group, run.stride),
            }  # fmt: skip
        else:
            said |= {"num_ops": round(run.flops), "tensor_size": round(run.bytes)}
        name = run.name if run.layer is None else f"layers.{run.layer}.{run.name}"
        before = (at - 1,) if at else ()
        yield Node(at, name, kind, before, max(round(run.seconds * 1e6), 1), said)


def _message(run: Run, sender: int, receiver: int) -> dict[str, float | int | str | bool]:
    """Attributes of a message between two ranks, by the names that ASTRA-sim reads."""
    size = round(run.message_bytes)
    return {"comm_size": size, "comm_src": sender, "comm_dst": receiver, "comm_tag": 0}


def _runs(step: StepEstimate, at: int, op: Op, layer: int | None) -> Iterator[Run]:
    """The runs of an operator in a layer; none where it does nothing."""
    seconds = float(
        step.expected_s[at, 0] * (1.0 + step.learned_s[0] / step.operators_s[:, 0].sum())
    )
    if seconds <= 0.0:
        return
    group = round(float(np.max(op.group)))
    message = _one_run(step, op.message_bytes)
    one = Run(
        op.name, op.kind, layer, seconds, float(step.flops[at, 0]), float(step.bytes[at, 0]),
        message, group if message else 1, max(round(float(np.max(op.stride))), 1),
    )  # fmt: skip
    for _ in range(max(round(op.repeat), 1)):
        yield one


def _one_run(step: StepEstimate, number: Any) -> float:
    """A number of an operator in one run, averaged over the contexts or chunks of the step."""
    values = np.atleast_1d(np.asarray(number, dtype=float))
    if step.node_weights is None or values.size == 1:
        weight = 1.0 if step.node_weights is None else float(step.node_weights[:, 0].sum())
        return float(values[0]) * weight
    return float(values.reshape(len(step.node_weights), -1)[:, 0] @ step.node_weights[:, 0])
