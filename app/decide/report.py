"""A plan for export: words, a one-page report as HTML or Markdown, YAML, launch lines."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import yaml

from app.answers.column import ends
from app.answers.columns import COLUMNS
from app.answers.table import to_json
from app.decide import svg
from app.decide.axes import ACROSS, UPWARDS
from app.decide.candidate_points import points
from app.planning.answer import Answer
from app.planning.manifests.bundle import archive, bundle
from app.planning.plan_text import chance, none_words, priced_words, ranked_words, short
from app.planning.targets import FIGURES
from app.wording import quantities
from app.wording.looks import LOOKS
from app.wording.markdown import capital
from genz_core.common.cells import markdown_table
from genz_core.errors import InvalidValue

Named = Mapping[str, Any]
_STYLE = Template(
    "body{font:15px/1.5 Helvetica,Arial,sans-serif;color:$ink;max-width:820px;margin:2rem auto;"
    "padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:1.6rem}"
    "table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}"
    "td,th{border-bottom:1px solid $grid;padding:4px 8px;text-align:left;white-space:nowrap}"
    "pre{background:$panel;padding:.7rem;white-space:pre-wrap;word-break:break-word;"
    "font-size:12.5px}svg{width:100%;height:auto}"
).substitute(LOOKS["light"])
_CHARTS = (("interactivity", "usd_per_mtok"), ("interactivity", "per_device"))
_MOST_OTHERS = 12
#: Endings of the names of exported files.
KINDS = (".html", ".md", ".yaml", ".json", ".sh")


# ------------------------------------------------------------------------------- words


def headline(plan: Named) -> str:
    """A plan in a sentence: what runs where, at what cost and latency."""
    cost = plan["usd_per_mtok"]
    money = f", {quantities.dollars(cost)} per million tokens out" if cost else ""
    return (
        f"{plan['devices']} × {plan['system']}: {short(plan)}{money}, TTFT "
        f"{quantities.seconds(plan['ttft_s'])}, TPOT {quantities.seconds(plan['tpot_s'])}"
    )


def plan_words(plan: Named) -> dict[str, Any]:
    """A plan's row for a reader: figures with intervals, margins, probability."""
    margins = [
        f"{FIGURES[name].title} {quantities.percent(share)}"
        for name, share in plan["margins"].items()
        if share is not None
    ]
    cost = plan["usd_per_mtok"]
    busy = "prompt_share" if plan["utilisation"] is None else "utilisation"
    return {
        COLUMNS["devices"].head: f"{plan['devices']} × {plan['system']}",
        COLUMNS["probability"].head: chance(plan),
        "Deployment": short(plan),
        COLUMNS["max_num_seqs"].head: plan["max_num_seqs"],
        **{f"{COLUMNS[name].head} [80 %]": _latency(plan, name) for name in ("ttft_s", "tpot_s")},
        **{
            COLUMNS[name].head: quantities.dollars(plan[name]) if cost else None
            for name in ("usd_per_mtok", "usd_per_hour")
        },
        COLUMNS["margins"].head: ", ".join(margins) or "–",
        COLUMNS[busy].head: quantities.percent(plan[busy]),
    }


def _latency(plan: Named, name: str) -> str:
    low, high = (plan[end] for end in ends(name))
    trust = quantities.NOT_VALIDATED if low is None else quantities.span(low, high)
    return f"{quantities.seconds(plan[name])} [{trust}]"


def command(named: Named) -> str:
    """The command that asks the same question."""
    words = [option.replace("µs", "us") for option in named["options"]]
    return shlex.join(["ridgeline", "plan", named["model"], *words])


# ------------------------------------------------------------------------------- documents


def check_ending(path: Path) -> None:
    """Refuse an export file whose ending is unknown.

    Raises:
        InvalidValue: it does not end in one of `KINDS`.
    """
    if path.suffix not in KINDS:
        raise InvalidValue(f"{path.name}: give a file that ends in {', '.join(KINDS)}")


def taken_along(path: Path, named: Named, answer: Answer) -> str:
    """The answer as the text of a file, in the format of its ending."""
    write = {
        ".html": lambda: html(named, answer),
        ".md": lambda: markdown(named),
        ".yaml": lambda: to_yaml(named),
        ".json": lambda: to_json(named) + "\n",
        ".sh": lambda: script(named),
    }
    return write[path.suffix]()


def to_yaml(named: Named) -> str:
    """The whole answer as YAML, with only plain values; NaN and infinities become null."""
    values = json.loads(to_json(named))
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def script(named: Named) -> str:
    """Launch lines of every plan as a shell script that runs the first plan, with the others
    commented out.
    """
    lines = ["#!/bin/sh", f"# {_asked(named)}"]
    for at, plan in enumerate(named["plans"], 1):
        mark = "" if at == 1 else "# "
        lines += ["", f"# plan {at}: {headline(plan)}"]
        lines += [f"# {note}" for note in plan["launch_notes"]]
        lines += [mark + line for line in _written(plan["launch_files"])]
        lines += [f"{mark}{line} &" for line in plan["launch"].splitlines()]
    if named["plans"]:
        check = named["plans"][0]["benchmark"]
        lines += ["wait", *(["", "# check it:", f"# {check}"] if check else [])]
    return "\n".join(" ".join(line.splitlines()) for line in lines) + "\n"


def before_and_after(before: Named, after: Named, kind: str = "") -> bytes:
    """A ZIP archive of two answers' best plans, a folder each: how to start them, and what to read.

    kind: of `app.planning.manifests.bundle.KINDS`, "" for launch lines alone.
    """
    files: dict[str, str] = {}
    for folder, named in (("before", before), ("after", after)):
        files[f"{folder}/launch.sh"] = script(named)
        if not kind:
            continue
        try:
            made = bundle(named, kind).files
        except InvalidValue as refused:
            made = {"README.txt": f"{refused}.\n"}
        files |= {f"{folder}/{kind}/{name}": text for name, text in made.items()}
    return archive(files)


def _written(files: Mapping[str, str]) -> Iterable[str]:
    """Shell commands, one line each, that write the files which launch lines name."""
    for name, text in files.items():
        lines = " ".join(shlex.quote(line) for line in text.splitlines())
        yield f"printf '%s\\n' {lines} > {name}"


def html(named: Named, answer: Answer) -> str:
    """A self-contained page with charts: no script, and nothing loaded from elsewhere."""
    drawn = [svg.candidates(points(answer, ACROSS[x], UPWARDS[y])) for x, y in _CHARTS]
    title = f"Plan of {named['model']}"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_question(named))}</p>"]
    body += [f"<p><b>{escape(line)}</b></p>" for line in _verdict(named)]
    body += [f"<h2>{escape(name)}</h2>{_html_table(rows)}" for name, rows in _tables(named)]
    body += ["<h2>All deployments that run</h2>", *filter(None, drawn)]
    for name, text in _commands(named):
        body.append(f"<h2>{escape(name)}</h2><pre>{escape(text)}</pre>")
    body.append(
        f"<h2>Notes</h2><ul>{''.join(f'<li>{escape(n)}</li>' for n in named['notes'])}</ul>"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def markdown(named: Named) -> str:
    """The report as Markdown, with a Mermaid chart, which code hosts and editors render."""
    lines = [f"# Plan of {_line(named['model'])}", "", _line(_question(named)), ""]
    lines += [f"**{_line(line)}**\n" for line in _verdict(named)]
    for name, rows in _tables(named):
        cells = [[_line(_shown(value)) for value in row.values()] for row in rows]
        lines += [f"## {name}", "", markdown_table(list(rows[0]), cells), ""]
    lines += _mermaid(named["plans"])
    for name, text in _commands(named):
        lines += [f"## {name}", "", "```bash", text.replace("```", ""), "```", ""]
    return "\n".join([*lines, "## Notes", "", *(f"- {_line(n)}" for n in named["notes"]), ""])


def _asked(named: Named) -> str:
    return f"{named['demand']['words']}; {', '.join(named['targets']) or 'no targets'}"


def _question(named: Named) -> str:
    return f"{_asked(named)}; {priced_words(named)}; ranked by {ranked_words(named)}."


def _verdict(named: Named) -> Iterable[str]:
    if named["plans"]:
        return [headline(named["plans"][0])]
    changes = [f"one would with {change['words']}" for change in named["changes"]]
    return [f"{capital(none_words(named))}.", *changes]


def _tables(named: Named) -> list[tuple[str, list[dict[str, Any]]]]:
    others = [
        {"family": other["family"], "why it loses": other["why"]}
        for other in named["others"][:_MOST_OTHERS]
    ]
    tables = [("Plans", [plan_words(plan) for plan in named["plans"]]), ("Others", others)]
    return [(name, rows) for name, rows in tables if rows]


def _commands(named: Named) -> list[tuple[str, str]]:
    found = [("Ask again", command(named))]
    if named["plans"]:
        best = named["plans"][0]
        version = f"{best['engine']} {best['launch_version']}".strip()
        written = "\n".join(_written(best["launch_files"]))
        start = f"{written}\n{best['launch']}".strip()
        check = f"{best['benchmark']}\n{best['guard']}".strip()
        found += [(f"Start it ({version})", start), ("Check it", check)]
    if named["measurement"]:
        found.append(("Narrow its interval", named["measurement"]["command"]))
    return [(name, text) for name, text in found if text]


def _html_table(rows: Sequence[Named]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _mermaid(plans: Sequence[Named]) -> list[str]:
    """A bar chart of the plans' cost, where each has one."""
    costs = [plan["usd_per_mtok"] for plan in plans]
    if not costs or None in costs:
        return []
    names = ", ".join(f'"{at}"' for at in range(1, len(costs) + 1))
    bars = ", ".join(f"{cost:.4g}" for cost in costs)
    return [
        "```mermaid", "xychart-beta", '  title "Dollars per million output tokens, by plan"',
        f"  x-axis [{names}]", f"  y-axis 0 --> {max(costs) * 1.1:.4g}", f"  bar [{bars}]", "```",
        "",
    ]  # fmt: skip


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)


def _line(text: str) -> str:
    """A text on one line without active markup."""
    return " ".join(str(text).split()).replace("<", "&lt;").replace("`", "'")
