"""Work that takes more than a second, in separate processes, with one queue for all visitors.

    lanes    kinds of work: how many at once, with how much memory and time
    queue    who is next, and what the previous server left behind
    job      one piece of work as its page sees it: place, progress, result, cancel
    starter  how its process starts
    worker   the process of a job: its limits, and its end when the server ends
    job_files   the files shared by job and worker

A job's folder is `jobs/<server>/<job>` in the data folder.  Only this user can access it (mode
700); the pickles in it are written and read only by this program and its own children.
"""

from app.jobs.job import Job
from app.jobs.lanes import MEASURING, PRICING, READING, SIMULATING, TRACING, Lane
from app.jobs.queue import Interrupted, Queue, server_queue

__all__ = [
    "MEASURING",
    "PRICING",
    "READING",
    "SIMULATING",
    "TRACING",
    "Interrupted",
    "Job",
    "Lane",
    "Queue",
    "server_queue",
]
