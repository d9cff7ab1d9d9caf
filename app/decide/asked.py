"""A planner's question as a page asks it: plain values, a key of caches and jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import hardware_db
from app.planning import answer as answers
from app.planning import changes, search
from app.planning.answer import Answer
from app.planning.changes import Change
from app.planning.demand import Demand
from app.planning.search import Priced, Question
from app.planning.space import ENGINES, Space
from app.planning.targets import parse_targets
from app.scenario.drafting import Drafting
from app.scenario.load_options import adapters
from app.scenario.request_shape import PLAIN, RequestShape
from app.scenario.scenario import SystemSource
from app.scenario.setup import source_of
from genz_core.limits import checked_size
from genz_core.progress import Cancelled, part
from genz_core.types import System

Progress = Callable[[float, str], None]
#: Families of deployments that are priced while a page waits: about a tenth of a second each.
_AT_ONCE = 6
#: Devices up to which a family is that quick.
_FEW_DEVICES = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page asks.

    model_config: text of a config.json, "" to look the name up.  systems: names, each with the
    text of its YAML or "".  load: "rate" or "concurrency", amount: of it.  target, rank,
    confidence: see `ridgeline.plan`.  simulate: whether the best are simulated though no target is
    on a percentile.  pays: see there.  engines, weights, kinds, speculation: empty for all, the
    checkpoint's, or none.  shape: what requests share.  lora: rank and number of adapters, 0 for
    none.  offload: what the host may hold.  prices: rent of a device [USD per hour] by system.
    own_folder, own_edition: the visitor's files, which tell apart what is cached.
    """

    model: str
    systems: tuple[tuple[str, str], ...]
    load: str = "rate"
    amount: float = 1.0
    isl: int = 1024
    osl: int = 128
    length_ratio: float = 1.0
    target: str = ""
    rank: str = ""
    confidence: float = 0.0
    simulate: bool = False
    pays: bool = False
    devices: tuple[int, int] = (1, 64)
    engines: tuple[str, ...] = ()
    weights: tuple[str, ...] = ("",)
    kv: tuple[str, ...] = ("",)
    kinds: tuple[str, ...] = ("aggregated",)
    speculation: tuple[str, ...] = ()
    shape: RequestShape = PLAIN
    lora: tuple[int, int] = (0, 1)
    offload: tuple[str, ...] = ()
    prices: tuple[tuple[str, float], ...] = ()
    model_config: str = ""
    own_folder: str = ""
    own_edition: str = ""

    @property
    def untargeted(self) -> Asked:
        """The same without what only chooses among priced candidates."""
        return replace(self, target="", rank="", confidence=0.0, simulate=False, pays=False)

    @property
    def is_quick(self) -> bool:
        """Whether its candidates are priced in about half a second."""
        systems = [_system(*named) for named in self.systems]
        engines = [len(self.engines or ENGINES.get(_vendor(s), ("generic",))) for s in systems]
        formats = len(self.weights) * len(self.kv)
        plain = self.kinds == ("aggregated",) and not (self.speculation or self.offload)
        return plain and self.devices[1] <= _FEW_DEVICES and sum(engines) * formats <= _AT_ONCE

    def question(self) -> Question:
        """The planner's question.

        Raises:
            RidgelineError: a name, a target or a number that cannot be.
        """
        space = Space(
            systems=tuple(_system(*named) for named in self.systems),
            engines=self.engines, weights=self.weights, kv=self.kv, devices=self.devices,
            kinds=self.kinds, prices=dict(self.prices),
            drafting=tuple(Drafting(method, None, "", "") for method in self.speculation),
            adapters=adapters(*self.lora), offload=self.offload,
        )  # fmt: skip
        closed = self.load == "concurrency"
        demand = Demand(
            concurrency=checked_size("concurrency", int(self.amount)) if closed else 0,
            rate=0.0 if closed else self.amount,
            isl=self.isl, osl=self.osl, length_ratio=self.length_ratio, shape=self.shape,
        )  # fmt: skip
        model = source_of(self.model, self.model_config)
        targets = parse_targets(self.target)
        simulated = self.simulate or any(target.figure.percentile for target in targets)
        return Question(
            model,
            space,
            demand,
            targets,
            self.rank,
            self.confidence,
            simulate=simulated,
            pays=self.pays,
        )


def _system(name: str, text: str) -> SystemSource | System:
    return hardware_db.load_yaml(text) if text else name


def _vendor(system: SystemSource | System) -> str:
    found = system if isinstance(system, System) else hardware_db.load(system)
    return found.vendor.casefold()


def price(asked: Asked) -> Priced:
    """Every candidate of a question's space under its load, and what was left out.

    Raises:
        RidgelineError: as `Asked.question` and `app.planning.search.price`.
    """
    return search.price(asked.question())


def price_as_job(
    asked: Asked, progress: Progress, cancelled: Callable[[], bool] = lambda: False
) -> Priced:
    """`price` as the work of a job."""
    return search.price(asked.question(), progress, cancelled)


def answer(asked: Asked, priced: Priced) -> Answer:
    """The answer to a question whose candidates are priced; without what would have to change.

    Raises:
        RidgelineError: as `Asked.question`.
    """
    named = asked.model
    return answers.answer(asked.question(), named, priced=priced, with_changes=False)


def changes_as_job(
    asked: Asked, progress: Progress, cancelled: Callable[[], bool] = lambda: False
) -> tuple[Change, ...]:
    """What would have to change where nothing meets the targets, as the work of a job."""
    question = asked.question()
    priced = search.price(question, part(progress, 0.0, 0.3), cancelled)
    found = search.search(question, priced)
    progress(0.3, "easing targets, adding devices")
    if cancelled():
        raise Cancelled("easing targets")
    return tuple(changes.changes(found))
