"""A plan as the manifests use it: names valid in a cluster, servers, figures and checks."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.planning.launch import Server
from app.planning.manifests.stacks import check_engine
from app.wording import quantities

Named = Mapping[str, Any]
Words = tuple[str, ...]
#: Length of a name, so that suffixes fit in the 63 characters of a DNS label.
_LONGEST_NAME, _LONGEST_LABEL, _LONGEST_NOTE = 40, 63, 2_000


@dataclass(frozen=True, slots=True)
class Deployed:
    """The deployed plan.

    name: a DNS label of at most 40 characters.  annotations: predicted figures as texts.
    benchmark, guard: commands that check it; guard is () where there is no interval to judge by.
    """

    name: str
    model: str
    engine: str
    pools: tuple[Server, ...]
    annotations: Mapping[str, str]
    benchmark: Words
    guard: Words

    @property
    def split(self) -> bool:
        """Whether prompts are read by separate servers."""
        return len(self.pools) > 1

    @property
    def vendors(self) -> set[str]:
        return {pool.vendor for pool in self.pools}

    def labels(self, component: str = "") -> dict[str, str]:
        """Labels of its resources; component: "server", "prefill", "router" ..."""
        labels = {"app.kubernetes.io/name": self.name, "app.kubernetes.io/part-of": "ridgeline"}
        if component:
            labels["app.kubernetes.io/component"] = component
        return labels


def deployed(named: Named, plan: Named) -> Deployed:
    """A plan of an answer's document.

    Raises:
        InvalidValue: manifests are not available for its engine.
    """
    engine = plan["engine"]
    check_engine(engine)
    model = plan["launch_model"]
    return Deployed(
        name=dns_label(f"{engine}-{model.rstrip('/').rsplit('/', 1)[-1]}"),
        model=model,
        engine=engine,
        pools=tuple(Server(**server) for server in plan["launch_servers"]),
        annotations=_annotations(named, plan),
        benchmark=tuple(shlex.split(plan["benchmark"])),
        guard=tuple(shlex.split(plan["guard"])),
    )


def dns_label(text: str) -> str:
    """A text as a DNS label that starts with a letter (RFC 1035), at most 40 characters."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")
    plain = plain if plain[:1].isalpha() else f"m-{plain}".rstrip("-")
    return plain[:_LONGEST_NAME].rstrip("-")


def label_value(text: str) -> str:
    """A text as a label's value: at most 63 letters, digits, dots, dashes and underscores."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")
    return plain[:_LONGEST_LABEL].rstrip("-._")


def literal(text: str) -> str:
    """A word escaped so that Kubernetes does not expand "$(NAME)" in it.

    Source:
    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    return text.replace("$(", "$$(")


def _annotations(named: Named, plan: Named) -> dict[str, str]:
    """Figures of a plan, SI units in the name as in its document."""
    demand = named["demand"]
    found = {
        "model": plan["launch_model"],
        "system": plan["system"],
        "load": " ".join(f"{name}={demand[name]:g}" for name in demand if name in _LOAD),
        "ttft-s": _figure(plan, "ttft_s"),
        "ttft-80-percent-s": _interval(plan, "ttft"),
        "tpot-s": _figure(plan, "tpot_s"),
        "tpot-80-percent-s": _interval(plan, "tpot"),
        "output-tokens-per-s": _figure(plan, "output_tokens_per_s"),
        "usd-per-mtok": _figure(plan, "usd_per_mtok"),
        "usd-per-hour": _figure(plan, "usd_per_hour"),
    }
    return {f"ridgeline/{name}": text[:_LONGEST_NOTE] for name, text in found.items() if text}


_LOAD = ("rate", "concurrency", "isl", "osl")


def _figure(plan: Named, name: str) -> str:
    return "" if plan[name] is None else f"{plan[name]:.4g}"


def _interval(plan: Named, name: str) -> str:
    low, high = plan[f"{name}_low_s"], plan[f"{name}_high_s"]
    return quantities.NOT_VALIDATED if low is None else f"{low:.4g} to {high:.4g}"
