"""The verbs: from a body to the document that the command line prints.  Nothing is computed here.

No function below opens a file named in a text: models and systems are looked up by name only (a
contract forbids importing `app.scenario.local_files`), and traces and reports are uploaded.
"""

import base64
import io
import math
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

import numpy as np

from app.api.bodies import MOST_ROWS, Body
from app.line import line_answer
from app.line.line_answer import document_of
from app.question import literals
from app.question.extras import extras_of
from app.question.parameters import PARAMETERS
from app.question.query import Query, ask, read
from app.scenario import results
from app.scenario.levers import phases_of
from app.scenario.summary import operator_rows
from genz_core.errors import InvalidValue
from genz_core.limits import brief

#: Limits of one answer: rows of a sweep, and requests of a simulation.
MOST_SWEPT = 10_000
#: The function of each verb whose document is printed as it is, imported when it is needed.
_FUNCTIONS: Mapping[str, str] = {
    **line_answer.FUNCTIONS,
    "ops": "app.model_inside.operator_counts:count",
    "scale": "app.scaling.scale:scale",
    "availability": "app.scaling.availability:availability",
}


def sent(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, with a trace's text parsed into requests and lengths as an array."""
    from app.simulation import trace_file

    opened = dict(given)
    if (text := opened.pop("trace", None)) is not None:
        if len(text.splitlines()) == 1 and not text.lstrip().startswith("{"):
            raise InvalidValue(
                f"trace = {brief(text)}: give the text of a trace, not the name of a file: a CSV "
                "with the header arrival_s,input_tokens,output_tokens, or JSON lines"
            )
        limit = given.get("requests")
        count = 0 if limit is None else literals.value(PARAMETERS["requests"], str(limit))
        opened["trace"] = trace_file.parse(io.BytesIO(text.encode()), "trace", count)
    if "lengths" in opened:
        opened["lengths"] = np.array(opened["lengths"], dtype=float)
    return opened


def asked_by(body: Body) -> Query:
    """The question in a body.

    Raises:
        RidgelineError: as `ask`, or more configurations than one answer may have.
    """
    found = ask(body.verb, body.given, sent)
    if body.verb != "sweep" and found.size > MOST_ROWS:
        raise InvalidValue(f"{found.size:,} rows: give at most {MOST_ROWS:,} in one request")
    return found


def extras_by(body: Body) -> dict[str, Any]:
    """The extras in a body, by name."""
    known = extras_of(body.verb)
    return {name: read(one, getattr(body, name)) for name, one in known.items()}


def answer(body: Body) -> dict[str, Any]:
    """The document of a body's verb, as its `--json` prints it."""
    if body.verb in _OWN:
        return _OWN[body.verb](body)
    found = resolve_name(_FUNCTIONS[body.verb])(asked_by(body), **extras_by(body))
    return dict(document_of(body.verb, found))


def estimate(body: Body) -> dict[str, Any]:
    """Static batches, or loads: {"rows": [what `ridgeline estimate --json` prints]}."""
    found = results.estimate(asked_by(body), **extras_by(body))
    rows = found.rows
    if body.operators:
        if isinstance(found, results.Served):
            raise InvalidValue(f"operators are those of a static batch: leave out {found.load}")
        if not found.scalar:
            raise InvalidValue("operators need a single static batch: give numbers, not lists")
        priced = found.engine_estimate
        steps = {phase: getattr(priced, phase) for phase in phases_of(priced)}
        rows[0]["operators"] = {phase: operator_rows(step) for phase, step in steps.items()}
    return {"rows": rows}


def routing(body: Body) -> dict[str, Any]:
    """Numbers of redundant experts: {"rows": [what `ridgeline routing --json` prints]}."""
    from app.decide import routing as decide

    sent = body.statistics
    counts = decide.read_counts(sent) if isinstance(sent, str) else decide.counts_of(sent)
    return {"rows": decide.routing(asked_by(body), counts, **extras_by(body))}


def export(body: Body) -> dict[str, Any]:
    """The files that `ridgeline export` writes: {"files": [name, bytes, and text or base64]}."""
    from app.exchange import step_trace

    files = step_trace.export(asked_by(body), **extras_by(body))
    return {"files": [_file(name, content) for name, content in files.items()]}


def _file(name: str, content: bytes) -> dict[str, Any]:
    """A file in a document: traces in base64, readable files as text."""
    about = {"name": name, "bytes": len(content)}
    if name.endswith(".et"):
        return {**about, "base64": base64.b64encode(content).decode("ascii")}
    return {**about, "text": content.decode("utf-8")}


def trace(content: bytes) -> dict[str, Any]:
    """A Chakra trace: its attributes, and its operators under "rows"."""
    from app.exchange.step_trace import document

    return document(content)


def study(document: Mapping[str, Any]) -> dict[str, Any]:
    """A technology study: {"title", "rows": [what `ridgeline study --json` prints]}."""
    from app.decide import study as decide

    return decide.study(document).to_dict()


def sweep(body: Body) -> dict[str, Any]:
    """Combinations: {"rows": [what `ridgeline sweep --json` prints]}.

    Raises:
        InvalidValue: more rows than one answer holds.
    """
    from app.planning import sweep_result

    query = asked_by(body)
    axes: list[Any] = [*query.arrays.values(), *query.several.values()]
    rows = math.prod([len(values) for values in axes])
    if rows > MOST_SWEPT:
        raise InvalidValue(f"{rows:,} rows: sweep at most {MOST_SWEPT:,} in one request")
    return {"rows": sweep_result.sweep(query, **extras_by(body)).rows}


def plan(body: Body) -> dict[str, Any]:
    """The output of `ridgeline plan --json`; with a deployment, also its files and notes."""
    from app.planning import result
    from app.planning.manifests.bundle import check_kind

    if body.deployment:
        check_kind(body.deployment)
    found = result.plan(asked_by(body))
    named = found.to_dict()
    if body.deployment:
        files = found.deployment(body.deployment).document() if named["plans"] else None
        named["deployment"] = files
    return named


def fleet(body: Body) -> dict[str, Any]:
    """The output of `ridgeline fleet --json`."""
    from app.fleets import result

    return result.fleet(body.given, sent).to_dict()


def tune(body: Body) -> dict[str, Any]:
    """The output of `ridgeline tune --json`: the next setting to run, or a search with the
    simulator.
    """
    from app.tuning import report
    from app.tuning.answer import answer as search

    found = search(asked_by(body), **extras_by(body), measured=body.measured)
    return report.document(found)


#: The verbs whose answer is more, or other, than the document of their function.
_OWN: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "estimate": estimate, "routing": routing, "export": export, "sweep": sweep, "plan": plan,
    "fleet": fleet, "tune": tune,
}  # fmt: skip
