"""ridgeline arch: the structure of a model, from its description or from a trace of its code."""

from typing import Annotated, Any

import typer

from app.answers.table import TableFormat, render
from app.commands import options as opt
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size

#: Limits of each symbol of `model_registry.reports.symbolic`.
_LIMIT = {"batch": "batch", "new_tokens": "input_tokens", "context": "cached_tokens"}
WITHOUT = 'Graph rewrites to leave out: "mla_absorbed,scan".'


def arch(
    model: opt.ModelName,
    trace: Annotated[bool, typer.Option("--trace", help="Trace the model's own code.")] = False,
    symbols: Annotated[
        bool, typer.Option("--symbols", help="Formulas in {batch}, {new_tokens}, {context} ...")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            help='Evaluate the formulas: "batch=1,new_tokens=1,context=1024", with bytes per '
            'element if needed: "w_bytes=1,a_bytes=2,kv_bytes=1".'
        ),
    ] = "",
    without: Annotated[str, typer.Option(help=WITHOUT)] = "",
    json: opt.Json = False,
) -> None:
    """Show the structure of a model: layers, operators, formulas."""
    from app.scenario.local_files import model_source
    from model_registry.reports import step_documents, symbolic

    source, left = model_source(model), parse_names(without)
    if at:
        report = symbolic.analysed(source, **_values(at), trace=trace, without=left)
    elif symbols:
        report = symbolic.populated(source, trace=trace, without=left)
    else:
        report = step_documents.arch_document(source, trace=trace, without=left)
    opt.show(json, report, _text(report))


def parse_names(text: str) -> list[str]:
    """The names in a list such as "scan,rotary"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _values(text: str) -> dict[str, Any]:
    """Values by symbol in a list such as "batch=1,context=1024,w_bytes=0.5"."""
    from model_registry.reports.symbolic import BYTES

    pairs = [part.partition("=") for part in text.split(",")]
    values = {name.strip(): value for name, _, value in pairs}
    if not set(values) <= {*_LIMIT, *BYTES}:
        raise InvalidValue(
            f"--at {text[:80]!r}: give whole numbers for {', '.join(_LIMIT)}, bytes per element "
            f"for {', '.join(BYTES)}"
        )
    return {
        name: checked_size(_LIMIT[name], value, f"--at {name}")
        if name in _LIMIT
        else _bytes(name, value)
        for name, value in values.items()
    }


def _bytes(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"--at {name}: {text[:40]!r} is not a number of bytes") from None


def _text(report: dict[str, Any]) -> str:
    """A report of `model_registry.reports.symbolic` as text: its facts, then its tables."""
    head = {key: value for key, value in report.items() if isinstance(value, (str, int, float))}
    lines = [f"{key:18} {value}" for key, value in head.items()]
    if "layers" in report:
        for group in report["layers"]:
            title = f"{group['count']} layers" if group["count"] else "outside the layers"
            rows = [
                {"name": op["name"], "kind": op["kind"], "weights": op["weights"],
                 "held GB": op["held_weight_bytes"] / 1e9}
                for op in group["operators"]
            ]  # fmt: skip
            lines += ["", title, render(rows, TableFormat.text)]
    else:
        rows = [
            {key: value for key, value in op.items() if key not in ("bytes", "formulas")}
            | op.get("bytes", {})
            | op.get("formulas", {})
            for op in report["operators"]
        ]
        total = [{"name": "total", **report["total"]}] if "total" in report else []
        lines += ["", render([*rows, *total], TableFormat.text)]
    lines += ["", *report.get("notes", ())]
    return "\n".join(lines).rstrip()
