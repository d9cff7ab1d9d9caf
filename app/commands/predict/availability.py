"""ridgeline availability: how many replicas are enough while some are lost."""

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.progress_bar import running
from app.commands.question_options import Extras, Given, of_verb


@of_verb("availability")
def availability(
    given: Given,
    extras: Extras,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """How many replicas keep a share of requests within the targets while some are lost: N, N+k,
    and on average over losses.
    """
    from app.scaling import availability as enough

    chosen = opt.table_format(format_, json)
    with running("simulating") as job:
        found = enough.availability(given.ask("availability"), extras, job.progress, job.cancelled)
    opt.show(chosen, found.to_dict(), found.rows, repr(found))
