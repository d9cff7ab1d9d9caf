"""ridgeline economics: token costs of a deployment, over a day and against an API; energy."""

from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.question_options import Given, of_verb


@of_verb("economics")
def economics(
    given: Given,
    kept_runs: Annotated[
        bool, typer.Option(help="Use the power that a kept run near this load measured.")
    ] = True,
    json: opt.Json = False,
) -> None:
    """Cost, energy and carbon of tokens: rented, owned, against an API."""
    from app.decide.economics import economics as account
    from app.decide.economics_words import sentences
    from app.measuring import run_store

    stores = run_store.stores() if kept_runs else ()
    named = account(given.ask("economics"), stores)
    opt.show(json, named, "\n".join(sentences(named)))
