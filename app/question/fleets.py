"""What may be said of a fleet beside the questions of its models: its machines and priorities."""

from __future__ import annotations

from collections.abc import Mapping

from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS
from app.question.verbs import parameters_of

#: Kinds of machines and models of one fleet, and machines of a kind.
MOST_KINDS, MOST_MODELS, _MOST = 50, 100, 10_000


def _named(*those: Parameter) -> Mapping[str, Parameter]:
    return {one.name: one for one in those}


#: Of a fleet as a whole.
FLEET = _named(
    Parameter("title", "text", "Fleet", "Of tables and charts."),
    Parameter(
        "budget", "number", None, "Most dollars an hour for all machines in use.", unit="$/h",
        least=0.0, most=1e9,
    ),
)  # fmt: skip
#: Of a kind of machines.
MACHINE = _named(
    Parameter("name", "text", "", "Of the machines in tables and charts; by default the system."),
    Parameter("system", "text", "", PARAMETERS["system"].help, names="system"),
    Parameter("devices", "whole", 8, "Devices of one machine.", least=1, most=4096),
    Parameter(
        "count", "whole", 1, "Machines of this kind that there are, or may be rented.", least=0,
        most=_MOST,
    ),
    Parameter("owned", "truth", False, "They are there already and cost nothing more."),
    Parameter(
        "price", "number", None, "Rent of one device; by default as published.", unit="$/h",
        least=0.0, most=1e6,
    ),
)  # fmt: skip
#: Of a model, beside its question.
OF_MODEL = _named(
    Parameter("name", "text", "", "Of the model's row in tables; by default the model."),
    Parameter("tenant", "text", "", "Who asks for it."),
    Parameter(
        "priority", "whole", 1, "1 is served first; equal ones share what is left.", least=1,
        most=1000,
    ),
)  # fmt: skip
#: Parameters of a plan that the fleet decides, and why a model of it may not state them.
DECIDED: Mapping[str, str] = {
    "rank": "a fleet serves by priority, then for the least rent on the fewest devices",
    "top": "a fleet has one answer",
    "price": "the rent of a device is stated with its machines",
    "break_even": "a fleet has replicas of one kind",
    "cross_systems": "a replica lies on machines of one kind",
}


def of_question() -> dict[str, Parameter]:
    """The parameters of the question of a model in a fleet."""
    return {name: one for name, one in parameters_of("plan").items() if name not in DECIDED}
