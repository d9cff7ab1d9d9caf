"""Work of more than a second, in processes of its own, one queue for all visitors.

    lanes    what kinds of work there are, how many at once, with how much memory and time
    queue    who is next; what the last server left behind
    job      one piece of work as its page sees it: place, progress, result, cancel
    worker   the process of a job: its caps, its end when the server goes
    order    the files between the two

A job's folder is `jobs/<server>/<job>` of the data folder.  It is of this user alone (mode 700):
the pickles in it are written and read by this program and its own children.
"""

from app.jobs.job import Job
from app.jobs.lanes import MEASURING, READING, SIMULATING, TRACING, Lane
from app.jobs.queue import Interrupted, Queue, server_queue

__all__ = [
    "MEASURING",
    "READING",
    "SIMULATING",
    "TRACING",
    "Interrupted",
    "Job",
    "Lane",
    "Queue",
    "server_queue",
]
