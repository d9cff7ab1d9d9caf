"""Rights of a dashboard's visitors: everything on one's own machine, less on a shared server.

`ridgeline app` passes the rights, as words, to its server in an environment variable.
"""

import os
from dataclasses import dataclass, fields

from genz_core.errors import InvalidValue

VARIABLE = "RIDGELINE_RIGHTS"
#: Variables: whether the dashboard writes a line a request, and the token that programs bear.
ACCESS_LOG, TOKEN = "RIDGELINE_ACCESS_LOG", "RIDGELINE_API_TOKEN"


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of the visitors of one server.

    shared: whether visitors are others than the one who runs the server.  may_save: change what
    all see: systems, profiles, recipes and kept runs.  may_measure: run models and
    microbenchmarks on the machine of the server.  login: whether a visitor must log in.
    """

    shared: bool = False
    may_save: bool = True
    may_measure: bool = True
    login: bool = False

    def words(self) -> str:
        """The rights as words, "shared may_measure"."""
        return " ".join(field.name for field in fields(self) if getattr(self, field.name))


def rights_of(words: str) -> Rights:
    """The rights that `Rights.words` described; "" is one's own machine.

    Raises:
        InvalidValue: a word that is none of them.
    """
    given, known = words.split(), [field.name for field in fields(Rights)]
    if strange := [word for word in given if word not in known]:
        raise InvalidValue(f"{VARIABLE} has {strange[0]!r}: choose from {', '.join(known)}")
    return Rights(**{name: name in given for name in known}) if given else Rights()


def rights_here() -> Rights:
    """The rights that the environment of this process states.

    Raises:
        InvalidValue: as `rights_of`.
    """
    return rights_of(os.environ.get(VARIABLE, ""))
