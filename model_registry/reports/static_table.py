"""Static tables: FLOPs and bytes of each operator of a model, independent of any hardware.

A table can be made from any model's graph, built or traced, for a batch of queries that may differ
(cached tokens, input tokens); the renderers are pure functions of it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

from genz_core.common.cells import markdown_row, spreadsheet_cell
from genz_core.errors import InvalidValue
from genz_core.graphs import Graph, Model, Op
from genz_core.types import Group, Parallelism, Step, scalar

COLUMNS = ("Node", "Blocks", "Compute", "Weights", "Input", "Output", "KV cache", "FLOP/byte")
#: Larger batches and token counts are refused.
LARGEST = 10**12
_SI = ("", "k", "M", "G", "T", "P", "E")
_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator in one block (layer): FLOPs, and bytes by tensor class.

    blocks: layers that have it; of_blocks: number of layers, 0 outside the layers.
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
        """All memory traffic [bytes]."""
        return self.weight_bytes + self.input_bytes + self.output_bytes + self.kv_bytes

    @property
    def flops_per_byte(self) -> float:
        """Arithmetic intensity, 0 where nothing is moved."""
        return self.flops / self.memory_bytes if self.memory_bytes else 0.0

    @property
    def count(self) -> float:
        """Runs in the step."""
        return self.repeat * (self.blocks or 1)


@dataclass(frozen=True, slots=True)
class Storage:
    """Least storage of a model [bytes]; weights exclude idle experts and the embedding table."""

    weights: float
    kv_cache: float
    inactive_experts: float
    embedding_table: float

    @property
    def total(self) -> float:
        """The total [bytes]."""
        return self.weights + self.kv_cache + self.inactive_experts + self.embedding_table


@dataclass(frozen=True, slots=True)
class StaticTable:
    """Figures of each operator in one block, their sum over all blocks, and the least storage."""

    model: str
    queries: tuple[tuple[float, float], ...]
    batch_size: int
    rows: tuple[OperatorRow, ...]
    total: OperatorRow
    storage: Storage
    notes: tuple[str, ...] = ()


# ------------------------------------------------------------------------------- from a graph


def static_table(
    model: Model,
    cached_tokens: Sequence[float] = (0,),
    input_tokens: Sequence[float] = (1,),
    batch_size: int | None = None,
    parallelism: Parallelism | None = None,
) -> StaticTable:
    """The static table of one step of a model.

    cached_tokens, input_tokens: of each query; a list of one applies to all.  batch_size: a
    multiple of the list's length, by which the list is repeated; None for one of each.

    Raises:
        InvalidValue: lists of different lengths, counts that are negative or beyond `LARGEST`, or
            no new token.
    """
    step = step_of(cached_tokens, input_tokens, batch_size)
    return table_of(model, step, parallelism or Parallelism())


def table_of(model: Model, step: Step, parallelism: Parallelism) -> StaticTable:
    """The static table of a step with one query per group."""
    graph = model.graph(step, parallelism)
    rows = _merged([_row(op, graph.layers) for op in _joined(graph.ops) if _shown(op)])
    queries = tuple((scalar(g.cached_tokens), scalar(g.new_tokens)) for g in step.groups)
    batch = sum(int(scalar(group.sequences)) for group in step.groups)
    return StaticTable(
        model.name, queries, batch, tuple(rows), _total(rows, graph), _storage(graph), graph.notes
    )


def step_of(
    cached_tokens: Sequence[float], input_tokens: Sequence[float], batch_size: int | None = None
) -> Step:
    """The step of a list of queries; arguments and errors as in `static_table`."""
    queries = _queries(cached_tokens, input_tokens)
    batch = len(queries) if batch_size is None else batch_size
    if checked_count("batch_size", batch) % len(queries):
        raise InvalidValue(
            f"a batch of {batch} is not a multiple of the {len(queries)} queries; "
            f"give {len(queries)} or {2 * len(queries)}"
        )
    each = float(batch // len(queries))
    return Step(tuple(Group(each, new, cached) for cached, new in queries))


def _queries(cached: Sequence[float], new: Sequence[float]) -> tuple[tuple[float, float], ...]:
    length = max(len(cached), len(new))
    if not length or any(len(counts) not in (1, length) for counts in (cached, new)):
        raise InvalidValue(
            f"{len(cached)} cached and {len(new)} input token counts do not pair up; "
            "give lists of one length, or a single number for all"
        )
    return tuple(
        (
            checked_count("cached_tokens", cached[at % len(cached)], 0),
            checked_count("input_tokens", new[at % len(new)]),
        )
        for at in range(length)
    )


def checked_count(name: str, value: float, least: int = 1) -> float:
    """`value` as a float, refused with `InvalidValue` outside of `least` to `LARGEST`."""
    if not least <= value <= LARGEST:
        raise InvalidValue(f"{name} is {Decimal(value):.6g}; give {least} to {LARGEST:.0e}")
    return float(value)


def _shown(op: Op) -> bool:
    return op.operator_class != "collective" or scalar(op.message_bytes) > 0


def _joined(ops: Sequence[Op]) -> list[Op]:
    """`ops` with those that run once per query added up: attention_1, attention_2 -> attention."""
    joined: list[Op] = []
    for op in ops:
        stem, _, number = op.name.rpartition("_")
        last = joined[-1] if joined else None
        if number.isdigit() and number != "1" and last and last.name == stem:
            joined[-1] = _added(last, op)
        else:
            joined.append(replace(op, name=stem) if number == "1" and stem else op)
    return joined


def _added(first: Op, second: Op) -> Op:
    names = ("flops", "weight_bytes", "input_bytes", "output_bytes", "kv_read_bytes")
    sums = {name: getattr(first, name) + getattr(second, name) for name in names}
    return replace(first, kv_write_bytes=first.kv_write_bytes + second.kv_write_bytes, **sums)


def _row(op: Op, layers: int) -> OperatorRow:
    return OperatorRow(
        op.name,
        op.kind,
        len(op.layers),
        layers if op.layers else 0,
        scalar(op.flops),
        scalar(op.weight_bytes),
        scalar(op.input_bytes),
        scalar(op.output_bytes),
        scalar(op.kv_read_bytes) + scalar(op.kv_write_bytes),
        op.repeat,
    )


def _merged(rows: list[OperatorRow]) -> list[OperatorRow]:
    """`rows` with those joined that differ only in their layers; rows without work are left out."""
    blocks_of: dict[OperatorRow, int] = {}
    for row in rows:
        if row.flops or row.memory_bytes:
            key = replace(row, blocks=0)
            blocks_of[key] = blocks_of.get(key, 0) + row.blocks
    return [replace(row, blocks=blocks) for row, blocks in blocks_of.items()]


def _total(rows: list[OperatorRow], graph: Graph) -> OperatorRow:
    fields = ("flops", "weight_bytes", "input_bytes", "output_bytes", "kv_bytes")
    sums = {name: sum(getattr(row, name) * row.count for row in rows) for name in fields}
    return OperatorRow(f"Total ({graph.layers} Blocks)", "total", 0, graph.layers, **sums)


def _storage(graph: Graph) -> Storage:
    weights = kv = idle_experts = table = 0.0
    for op in graph.ops:
        size = scalar(op.held_weight_bytes) * op.count
        kv += scalar(op.held_kv_bytes) * op.count
        if op.kind == "embedding":
            table += size
        elif op.kind == "moe":
            idle = max(size - scalar(op.weight_bytes) * op.count, 0.0)
            idle_experts, weights = idle_experts + idle, weights + size - idle
        else:
            weights += size
    return Storage(weights, kv, idle_experts, table)


# ------------------------------------------------------------------------------- rendering


def scaled(value: float, units: Sequence[str], base: float) -> str:
    """`value` with the unit that keeps it below `base`, from units in ascending order:
    "4.00 KiB".
    """
    power = 0
    while abs(value) >= base and power < len(units) - 1:
        value, power = value / base, power + 1
    return f"{value:.2f} {units[power]}".strip()


def flops_text(value: float) -> str:
    """FLOPs in SI units: "21.87 TFLOP"."""
    return scaled(value, [f"{unit}FLOP" for unit in _SI], 1000.0)


def bytes_text(value: float) -> str:
    """Bytes in IEC units: "13.00 GiB"."""
    return scaled(value, _IEC, 1024.0)


def _cells(row: OperatorRow) -> tuple[str, ...]:
    ends = f"{row.repeat:g}" if not row.of_blocks else ""
    blocks = f"{row.blocks} / {row.of_blocks}" if row.blocks else ends
    sizes = (row.weight_bytes, row.input_bytes, row.output_bytes, row.kv_bytes)
    return (
        row.node,
        blocks,
        flops_text(row.flops),
        *(bytes_text(size) for size in sizes),
        f"{row.flops_per_byte:.2f}",
    )


def storage_line(storage: Storage) -> str:
    """One line: weights + KV cache + inactive experts + embedding table = total."""
    parts = [
        f"{bytes_text(storage.weights)} (weights)",
        f"{bytes_text(storage.kv_cache)} (KV cache)",
    ]
    if storage.inactive_experts:
        parts.append(f"{bytes_text(storage.inactive_experts)} (inactive experts)")
    parts.append(f"{bytes_text(storage.embedding_table)} (embedding table)")
    return f"Minimum storage: {' + '.join(parts)} = {bytes_text(storage.total)}"


def as_text(table: StaticTable) -> str:
    """A plain text table with columns as wide as their longest cell."""
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
    """A Markdown table: rows have the figures of one block, the total those of all blocks."""
    body = [_cells(row) for row in (*table.rows, table.total)]
    rule = (":--", *["--:"] * (len(COLUMNS) - 1))
    return "\n".join([*map(markdown_row, (COLUMNS, rule, *body)), "", storage_line(table.storage)])


def as_csv(table: StaticTable) -> str:
    """Comma-separated unrounded figures, one row per operator, the total last."""
    names = ["node", "kind", "blocks", "of_blocks", "flops", "weight_bytes", "input_bytes"]
    names += ["output_bytes", "kv_bytes", "flops_per_byte"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in (*table.rows, table.total):
        writer.writerow([spreadsheet_cell(getattr(row, name)) for name in names])
    return out.getvalue()


def as_rows(table: StaticTable) -> list[dict[str, Any]]:
    """The unrounded figures of every operator, by name."""
    return [{**asdict(row), "flops_per_byte": row.flops_per_byte} for row in table.rows]


def as_json(table: StaticTable) -> str:
    """JSON of the whole table, unrounded."""
    total = {**asdict(table.total), "flops_per_byte": table.total.flops_per_byte}
    storage = {**asdict(table.storage), "total": table.storage.total}
    whole = {**asdict(table), "rows": as_rows(table), "total": total, "storage": storage}
    return json.dumps(whole, indent=2)
