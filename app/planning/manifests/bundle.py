"""A plan as the files of a deployment, and notes on what they leave open."""

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from app.planning.manifests import dynamo, helm, kubernetes, llm_d
from app.planning.manifests.check_job import NOTES, check_job, judge_note
from app.planning.manifests.deployment import Deployed, deployed
from genz_core.errors import InvalidValue

#: Kinds of deployments that files can be made for.
KINDS = ("kubernetes", "helm", "dynamo", "llm-d")
_WIDE = 1_000_000
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that ZIP can store


@dataclass(frozen=True, slots=True)
class Bundle:
    """files: YAML texts by name.  notes: what they leave open, and why they do not deploy a better
    plan.
    plan: number of the plan.
    """

    files: Mapping[str, str]
    notes: tuple[str, ...]
    plan: int = 0

    def document(self) -> dict[str, Any]:
        """The bundle as JSON data."""
        return {"files": dict(self.files), "notes": list(self.notes), "plan": self.plan}

    def zipped(self) -> bytes:
        """Files, and notes as README.txt, as a ZIP archive; equal bundles give equal bytes."""
        notes = "".join(f"- {' '.join(note.split())}\n" for note in self.notes)
        return archive({**self.files, "README.txt": notes})


def archive(files: Mapping[str, str]) -> bytes:
    """Texts by name as a ZIP archive; equal texts give equal bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, text in files.items():
            zipped.writestr(zipfile.ZipInfo(name, _EPOCH), text)
    return packed.getvalue()


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of deployment.

    Raises:
        InvalidValue: it is none of `KINDS`.
    """
    if kind not in KINDS:
        raise InvalidValue(f"unknown deployment {kind[:60]!r}: {', '.join(KINDS)}")


def bundle(named: Mapping[str, Any], kind: str, at: int | None = None) -> Bundle:
    """The files that deploy a plan of an answer's document.

    kind: of `KINDS`.  at: number of the plan, None for the best one that this kind supports.

    Raises:
        InvalidValue: no such kind or plan, or no plan that this kind supports.
    """
    check_kind(kind)
    if (at or 0) >= len(named["plans"]):
        raise InvalidValue("no deployment meets the targets, so there is nothing to deploy")
    if at is not None:
        return _bundle(named, kind, at)
    reasons: list[str] = []
    for number in range(len(named["plans"])):
        try:
            found = _bundle(named, kind, number)
        except InvalidValue as refused:
            reasons.append(f"plan {number + 1} cannot be deployed this way: {refused}")
            continue
        return replace(found, notes=(*dict.fromkeys(reasons), *found.notes))
    raise InvalidValue("; ".join(reasons))


def _bundle(named: Mapping[str, Any], kind: str, at: int) -> Bundle:
    subject = deployed(named, named["plans"][at])
    make, address, notes = _MAKERS[kind]
    files = {**make(subject), "check.yaml": [check_job(subject, address(subject))]}
    said = dict.fromkeys([*notes(subject), *judge_note(subject), *NOTES])
    return Bundle({name: _text(parts) for name, parts in files.items()}, tuple(said), at)


Files = Mapping[str, list[dict[str, Any]]]
#: By kind: the files beside the check, the address that the check uses, and the notes.
_MAKERS: Mapping[
    str,
    tuple[
        Callable[[Deployed], Files], Callable[[Deployed], str], Callable[[Deployed], Iterable[str]]
    ],
] = {
    "kubernetes": (
        lambda one: {"deployment.yaml": kubernetes.documents(one)},
        lambda one: f"http://{one.name}:8000",
        kubernetes.notes,
    ),
    "helm": (
        lambda one: {"values.yaml": [helm.values(one)]},
        helm.address,
        lambda one: [*kubernetes.notes(one)[:1], *helm.notes(one)],
    ),
    "dynamo": (
        lambda one: {"graph.yaml": [dynamo.graph(one)]},
        dynamo.address,
        lambda _: dynamo.notes(),
    ),
    "llm-d": (
        lambda one: {
            "model-servers.yaml": llm_d.documents(one),
            "router-values.yaml": [llm_d.router_values(one)],
        },
        llm_d.address,
        lambda one: [*kubernetes.notes(one), *llm_d.notes(one)],
    ),
}


def _text(documents: Iterable[Mapping[str, Any]]) -> str:
    """Documents as YAML of plain values: no anchors, no tags, no broken lines."""
    return str(
        yaml.dump_all(
            documents, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=_WIDE,
            explicit_start=True,
        )
    )  # fmt: skip


class _Plain(yaml.SafeDumper):
    """A dumper without anchors, which not every reader supports."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
