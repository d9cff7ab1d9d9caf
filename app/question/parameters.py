"""Every parameter of a question by name; each is declared once, in its part.

To add one, add a field to its part and the physics that reads it.  Options of the command line,
keywords of `import ridgeline`, bodies of the API, columns of files, keys of links, forms and the
reference page are made from these fields.
"""

from collections.abc import Mapping
from dataclasses import fields

from app.question.decisions import Prices, Search, Targets
from app.question.deployment import Deployment
from app.question.load import Load
from app.question.parameter import Parameter, declared

PARTS = (Deployment, Load, Targets, Prices, Search)
#: Every parameter by name, in the order of declaration.
PARAMETERS: Mapping[str, Parameter] = {
    entry.name: declared(entry, part.__name__) for part in PARTS for entry in fields(part)
}
#: Every other name of a parameter.
ALIASES: Mapping[str, str] = {
    alias: one.name for one in PARAMETERS.values() for alias in one.aliases
}


def names_of(part: type) -> tuple[str, ...]:
    """Names of the parameters of a part of the question."""
    return tuple(entry.name for entry in fields(part))


def in_group(group: str) -> tuple[str, ...]:
    """Names of the parameters under a heading of `app.question.groups`."""
    return tuple(one.name for one in PARAMETERS.values() if one.group == group)
