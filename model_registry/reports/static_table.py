"""Static tables: what each operator computes and moves, before any hardware enters.

A table is made of any model's graph, built or traced, for a batch of queries that may differ
(cached tokens, input tokens); the renderers are pure functions of it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.types import Graph, Group, Model, Num, Op, Parallelism, Step

COLUMNS = ("Node", "Blocks", "Compute", "Weights", "Input", "Output", "KV cache", "FLOP/byte")
#: Batches and token counts beyond this are not asked for.
LARGEST = 10**12
_SI = ("", "k", "M", "G", "T", "P", "E")
_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Row:
    """One operator in one block (layer): FLOPs, and bytes by tensor class.

    blocks: layers that have it; of_blocks: layers in all, 0 for the ends of the model.
    """

    node: str
    kind: str
    blocks: int
    of_blocks: int
    flops: float
    weight_bytes: float
    input_bytes: float
    output_bytes: float
    kv_bytes: float
    repeat: float = 1.0

    @property
    def memory_bytes(self) -> float:
        return self.weight_bytes + self.input_bytes + self.output_bytes + self.kv_bytes

    @property
    def flops_per_byte(self) -> float:
        return self.flops / self.memory_bytes if self.memory_bytes else 0.0

    @property
    def count(self) -> float:
        """Runs in the step."""
        return self.repeat * (self.blocks or 1)


@dataclass(frozen=True, slots=True)
class Storage:
    """What lies on the device: [bytes]; weights without the two that follow."""

    weights: float
    kv_cache: float
    inactive_experts: float
    embedding_table: float

    @property
    def total(self) -> float:
        return self.weights + self.kv_cache + self.inactive_experts + self.embedding_table


@dataclass(frozen=True, slots=True)
class StaticTable:
    """Rows per block, their sum over all blocks, and the least storage."""

    model: str
    queries: tuple[tuple[float, float], ...]
    batch_size: int
    rows: tuple[Row, ...]
    total: Row
    storage: Storage
    notes: tuple[str, ...] = ()


# ------------------------------------------------------------------------------- making it


def static_table(
    model: Model,
    cached_tokens: Sequence[float] = (0,),
    input_tokens: Sequence[float] = (1,),
    batch_size: int | None = None,
    parallelism: Parallelism | None = None,
) -> StaticTable:
    """The table of one step.

    cached_tokens, input_tokens: of each query; a list of one goes for all.  batch_size: a
    multiple of the list's length, which is repeated; None for one of each.

    Raises:
        InvalidValue: lists of different lengths, counts that are negative or beyond `LARGEST`, or
            no new token.
    """
    queries = _queries(cached_tokens, input_tokens)
    batch = len(queries) if batch_size is None else batch_size
    if bounded("batch_size", batch) % len(queries):
        raise InvalidValue(
            f"a batch of {batch} is no multiple of the {len(queries)} queries; "
            f"give {len(queries)} or {2 * len(queries)}"
        )
    each = float(batch // len(queries))
    step = Step(tuple(Group(each, new, cached) for cached, new in queries))
    graph = model.graph(step, parallelism or Parallelism())
    rows = _merged([_row(op, graph.layers) for op in _joined(graph.ops) if _shown(op)])
    return StaticTable(
        model.name, queries, batch, tuple(rows), _total(rows, graph), _storage(graph), graph.notes
    )


def _queries(cached: Sequence[float], new: Sequence[float]) -> tuple[tuple[float, float], ...]:
    length = max(len(cached), len(new))
    if not length or any(len(one) not in (1, length) for one in (cached, new)):
        raise InvalidValue(
            f"{len(cached)} cached and {len(new)} input token counts do not pair up; "
            "give lists of one length, or a single number for all"
        )
    return tuple(
        (
            bounded("cached_tokens", cached[at % len(cached)], 0),
            bounded("input_tokens", new[at % len(new)]),
        )
        for at in range(length)
    )


def bounded(name: str, value: float, least: int = 1) -> float:
    """`value`, a count from `least` to `LARGEST`.  Raises `InvalidValue`."""
    if not least <= value <= LARGEST:
        raise InvalidValue(f"{name} is {Decimal(value):.6g}; give {least} to {LARGEST:.0e}")
    return float(value)


def _number(value: Num) -> float:
    return float(np.asarray(value, dtype=float).reshape(-1)[0])


def _shown(op: Op) -> bool:
    return op.operator_class != "collective" or _number(op.message_bytes) > 0


def _joined(ops: Sequence[Op]) -> list[Op]:
    """Operators that run once for each query are one row: attention_1, attention_2 -> attention."""
    out: list[Op] = []
    for op in ops:
        stem, _, number = op.name.rpartition("_")
        last = out[-1] if out else None
        if number.isdigit() and number != "1" and last and last.name == stem:
            out[-1] = _added(last, op)
        else:
            out.append(replace(op, name=stem) if number == "1" and stem else op)
    return out


def _added(one: Op, other: Op) -> Op:
    names = ("flops", "weight_bytes", "input_bytes", "output_bytes", "kv_read_bytes")
    sums = {name: getattr(one, name) + getattr(other, name) for name in names}
    return replace(one, kv_write_bytes=one.kv_write_bytes + other.kv_write_bytes, **sums)


def _row(op: Op, layers: int) -> Row:
    return Row(
        op.name,
        op.kind,
        len(op.layers),
        layers if op.layers else 0,
        _number(op.flops),
        _number(op.weight_bytes),
        _number(op.input_bytes),
        _number(op.output_bytes),
        _number(op.kv_read_bytes) + _number(op.kv_write_bytes),
        op.repeat,
    )


def _merged(rows: list[Row]) -> list[Row]:
    """Rows that differ in nothing but their layers are one; those without any work go."""
    found: dict[Row, int] = {}
    for row in rows:
        if row.flops or row.memory_bytes:
            key = replace(row, blocks=0)
            found[key] = found.get(key, 0) + row.blocks
    return [replace(row, blocks=blocks) for row, blocks in found.items()]


def _total(rows: list[Row], graph: Graph) -> Row:
    fields = ("flops", "weight_bytes", "input_bytes", "output_bytes", "kv_bytes")
    sums = {name: sum(getattr(row, name) * row.count for row in rows) for name in fields}
    return Row(f"Total ({graph.layers} Blocks)", "total", 0, graph.layers, **sums)


def _storage(graph: Graph) -> Storage:
    held = kv = experts = table = 0.0
    for op in graph.ops:
        own = _number(op.held_weight_bytes) * op.count
        kv += _number(op.held_kv_bytes) * op.count
        if op.kind == "embedding":
            table += own
        elif op.kind == "moe":
            idle = max(own - _number(op.weight_bytes) * op.count, 0.0)
            experts, held = experts + idle, held + own - idle
        else:
            held += own
    return Storage(held, kv, experts, table)


# ------------------------------------------------------------------------------- showing it


def scaled(value: float, units: Sequence[str], base: float) -> str:
    """4096, IEC -> "4.00 KiB"."""
    power = 0
    while abs(value) >= base and power < len(units) - 1:
        value, power = value / base, power + 1
    return f"{value:.2f} {units[power]}".strip()


def flops_text(value: float) -> str:
    return scaled(value, [f"{unit}FLOP" for unit in _SI], 1000.0)


def bytes_text(value: float) -> str:
    return scaled(value, _IEC, 1024.0)


def _cells(row: Row) -> tuple[str, ...]:
    blocks = f"{row.blocks} / {row.of_blocks}" if row.blocks else "1" if not row.of_blocks else ""
    sizes = (row.weight_bytes, row.input_bytes, row.output_bytes, row.kv_bytes)
    return (
        row.node,
        blocks,
        flops_text(row.flops),
        *(bytes_text(size) for size in sizes),
        f"{row.flops_per_byte:.2f}",
    )


def storage_line(storage: Storage) -> str:
    """Minimum storage: weights + KV cache + inactive experts + embedding table = total."""
    parts = [
        f"{bytes_text(storage.weights)} (weights)",
        f"{bytes_text(storage.kv_cache)} (KV cache)",
    ]
    if storage.inactive_experts:
        parts.append(f"{bytes_text(storage.inactive_experts)} (inactive experts)")
    parts.append(f"{bytes_text(storage.embedding_table)} (embedding table)")
    return f"Minimum storage: {' + '.join(parts)} = {bytes_text(storage.total)}"


def as_text(table: StaticTable) -> str:
    """A plain table with columns as wide as they need."""
    lines = [COLUMNS, *(_cells(row) for row in (*table.rows, table.total))]
    widths = [max(len(line[at]) for line in lines) for at in range(len(COLUMNS))]
    shown = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    shown.insert(1, "-" * len(shown[0]))
    shown.insert(-1, "-" * len(shown[0]))
    return "\n".join([*shown, "", storage_line(table.storage)])


def as_markdown(table: StaticTable) -> str:
    """A GitHub table; figures of a row are of one block, the total of all."""
    body = [_cells(row) for row in (*table.rows, table.total)]
    rule = (":--", *["--:"] * (len(COLUMNS) - 1))
    lines = ["| " + " | ".join(line) + " |" for line in (COLUMNS, rule, *body)]
    return "\n".join([*lines, "", storage_line(table.storage)])


def as_csv(table: StaticTable) -> str:
    """Unrounded figures, one row an operator, the total last."""
    names = ["node", "kind", "blocks", "of_blocks", "flops", "weight_bytes", "input_bytes"]
    names += ["output_bytes", "kv_bytes", "flops_per_byte"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in (*table.rows, table.total):
        writer.writerow([getattr(row, name) for name in names])
    return out.getvalue()


def as_json(table: StaticTable) -> str:
    """Everything in the table, unrounded."""
    rows = [{**asdict(row), "flops_per_byte": row.flops_per_byte} for row in table.rows]
    total = {**asdict(table.total), "flops_per_byte": table.total.flops_per_byte}
    storage = {**asdict(table.storage), "total": table.storage.total}
    whole = {**asdict(table), "rows": rows, "total": total, "storage": storage}
    return json.dumps(whole, indent=2)


RENDERERS = {"text": as_text, "markdown": as_markdown, "csv": as_csv, "json": as_json}
