"""The page of latency models: formulas, constants and sources, from their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

_HEAD = """# Latency models

{made}Each operator of a model has a **bound** (physics) and an **expected** time (a kernel). The
expected time is a formula of its class with constants that were fitted on measured kernels of
the device. Devices without measurements use typical constants, as the tier shows. Every constant
has a physical range, and no expected time lies below the bound. `ridgeline systems SYSTEM` prints
the constants of a device. [How a number is made](how-a-number-is-made.md) follows one product
through the formulas, [Accuracy](accuracy.md) shows their errors, and [What is not
modelled](not-modelled.md) what they leave out.

p_norm(p, a, b, ...) = (a^p + b^p + ...)^(1/p): the sum at p = 1, the largest as p grows. `overlap`
is such a p, and is fitted. `launch` is the time of the smallest kernel; in the graphs of an engine
it is replaced by the engine's kernel floor.

"""


def _texts() -> list[tuple[str, list[Any], list[type]]]:
    """(title, what holds its docstrings, its sets of constants)."""
    from genz_core import operators
    from genz_core.latency import (
        collective_traffic,
        collectives,
        decode_attention,
        gemm,
        moe,
        parameters,
        pointwise,
        prefill_attention,
        residual,
        residual_grid,
        roofline,
        scan,
    )
    from genz_core.serving import queueing, step_cycles

    return [
        ("The bound", [roofline], []),
        ("Matrix products", [gemm.gemm_time], [parameters.GemmParameters]),
        (
            "Attention of a prompt",
            [prefill_attention.prefill_attention_time],
            [parameters.PrefillAttentionParameters],
        ),
        (
            "Attention of a decode step",
            [decode_attention.decode_attention_time],
            [parameters.DecodeAttentionParameters],
        ),
        ("Mixtures of experts", [moe.moe_time, moe.expected_tiles], [parameters.MoeParameters]),
        ("Recurrences", [scan.scan_time], [parameters.ScanParameters]),
        ("One pass over memory", [pointwise.pointwise_time], [parameters.PointwiseParameters]),
        (
            "Collectives",
            [collectives.collective_time, collective_traffic.load],
            [parameters.CollectiveParameters],
        ),
        ("What the equations miss", [residual, residual_grid], []),
        ("Work of operators", [operators], []),
        ("Many requests at once", [step_cycles, queueing], []),
    ]


def latency_page(made: str) -> str:
    """The page; made: the line that says where it comes from."""
    parts = [_HEAD.format(made=made)]
    for title, holders, kinds in _texts():
        parts.append(f"## {title}\n\n")
        for holder in holders:
            place = holder if inspect.ismodule(holder) else inspect.getmodule(holder)
            name = place.__name__.replace(".", "/")
            parts.append(_markdown(inspect.getdoc(holder) or "") + f"\n\nIn `{name}`.\n\n")
        parts += [_constants(kind) for kind in kinds]
    return "".join(parts)


def _markdown(text: str) -> str:
    """A docstring without its arguments, its formulas as code, its sources as links."""
    text = re.sub(r"\n\n(?:Args|Raises|Returns):\n.*?(?=\n\n\S|\Z)", "", text, flags=re.DOTALL)
    kept, code = [], False
    for block in text.split("\n\n"):
        indented = all(line.startswith("    ") for line in block.splitlines())
        if indented and block.strip():
            kept.append("```text\n" + inspect.cleandoc(block) + "\n```")
            code = True
            continue
        plain = block.replace("::", ":") if not code else block
        kept.append(_linked(_lines(plain)))
    return "\n\n".join(kept)


def _lines(block: str) -> str:
    """Lines that are equations of their own stay apart."""
    lines = block.splitlines()
    return "\n".join(f"`{line}`  " if re.match(r"\w+ = ", line) else line for line in lines)


def _linked(text: str) -> str:
    text = re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
    return re.sub(r"doi:(10\.[\w./-]*\w)", r"[doi:\1](https://doi.org/\1)", text)


def _constants(kind: Any) -> str:
    from genz_core.latency.parameters import describe

    rows = "".join(
        f"| `{c.name}` | {c.meaning} | {c.unit} | {c.low:g} to {c.high:g} | {c.default:g} |\n"
        for c in describe(kind)
    )
    head = "| constant | meaning | unit | range | typical |\n|---|---|---|---|---|\n"
    return f"Constants, `{kind.__name__}`:\n\n{head}{rows}\n"
