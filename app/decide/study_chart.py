"""A technology study as one chart, SVG text that stands alone: speed, cost, energy, what binds."""

from __future__ import annotations

from html import escape
from typing import Any

from app.decide.study import Study, label

_WIDE, _LABELS, _BARS, _ROW, _TOP = 1180, 420, 300, 24, 56
_COLORS = ("#1459c2", "#bc6c11", "#1c9d73", "#9f50a5", "#b09a00", "#697583", "#5a2b83", "#a54925")
_INK = "#1b232e"


def svg(found: Study) -> str:
    """A bar a combination, as long as its tokens a second and device; a colour a technique; what
    cannot run has its reason in place of a bar."""
    speeds = [row.get("output_tokens_per_s_per_device") or 0.0 for row in found.rows]
    largest = max(speeds, default=0.0) or 1.0
    colors = {
        name: _COLORS[at % len(_COLORS)]
        for at, name in enumerate(dict.fromkeys(row["technique"] for row in found.rows))
    }
    high = _TOP + _ROW * len(found.rows) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" width="{_WIDE}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDE}" height="{high}" fill="#ffffff"/>',
        _text(16, 24, found.title, size=16),
        _text(
            _LABELS, 44, "Output tokens a second and device; TPOT; cost; energy; decode bound by"
        ),
    ]
    for at, (row, speed) in enumerate(zip(found.rows, speeds, strict=True)):
        y = _TOP + _ROW * at
        parts.append(_text(16, y + 14, label(row)))
        long = _BARS * speed / largest
        parts.append(
            f'<rect x="{_LABELS}" y="{y + 2}" width="{long:.1f}" height="{_ROW - 8}" '
            f'fill="{colors[row["technique"]]}"/>'
        )
        parts.append(_text(_LABELS + long + 8, y + 14, _words(row, speed)))
    return "\n".join([*parts, "</svg>", ""])


def _words(row: dict[str, Any], speed: float) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['message'][:80]}"
    said = [f"{speed:,.4g}/s", f"{1e3 * row['tpot_s']:,.3g} ms"]
    if (cost := row.get("usd_per_million_tokens")) is not None:
        said.append(f"{cost:,.3g} $/M")
    if (energy := row.get("joules_per_token")) is not None:
        said.append(f"{energy:,.3g} J")
    return "; ".join([*said, row.get("decode_bound_by", "")])


def _text(x: float, y: float, words: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{_INK}" font-size="{size}">{escape(words)}</text>'
