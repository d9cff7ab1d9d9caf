"""Parameters of a fleet in addition to the questions of its models: machines and priorities."""

from collections.abc import Mapping

from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS
from app.question.verbs import parameters_of

#: Kinds of machines and models of one fleet, and machines of a kind.
MOST_KINDS, MOST_MODELS, _MOST = 50, 100, 10_000


def _named(*those: Parameter) -> Mapping[str, Parameter]:
    return {one.name: one for one in those}


#: Parameters of a fleet as a whole.
FLEET = _named(
    Parameter("title", "text", "Fleet", "Title of tables and charts."),
    Parameter(
        "budget", "number", None, "Maximum rent of all machines in use, in dollars per hour.",
        unit="$/h", most=1e9,
    ),
)  # fmt: skip
#: Parameters of a kind of machine.
MACHINE = _named(
    Parameter("name", "text", "",
    "Name of the machines in tables and charts; by default the system."),
    Parameter("system", "text", "", PARAMETERS["system"].help, names="system"),
    Parameter("devices", "whole", 8, "Devices per machine.", least=1, most=4096),
    Parameter(
        "count", "whole", 1, "Number of machines of this kind that exist or can be rented.",
        most=_MOST,
    ),
    Parameter("owned", "truth", False, "The machines are owned and have no rent."),
    Parameter(
        "price", "number", None, "Rent of one device; by default the published rent.", unit="$/h",
        most=1e6,
    ),
)  # fmt: skip
#: Parameters of a model besides its question.
OF_MODEL = _named(
    Parameter("name", "text", "", "Name of the model's row in tables; by default the model."),
    Parameter("tenant", "text", "", "The tenant that uses the model."),
    Parameter(
        "priority", "whole", 1,
        "1 is served first; models of equal priority share the machines that are left.",
        least=1,
        most=1000,
    ),
)  # fmt: skip
#: Parameters of a plan that the fleet decides, and why its models may not state them.
DECIDED: Mapping[str, str] = {
    "rank": "a fleet serves by priority, then for the least rent on the fewest devices",
    "top": "a fleet has one answer",
    "price": "the rent of a device is stated with its machines",
    "break_even": "a fleet has only one kind of replica",
    "cross_systems": "a replica runs on machines of one kind",
}


def of_question() -> dict[str, Parameter]:
    """The parameters of the question of a model in a fleet."""
    return {name: one for name, one in parameters_of("plan").items() if name not in DECIDED}
