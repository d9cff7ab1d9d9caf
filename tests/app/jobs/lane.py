"""The lane of the tests of jobs, and the end of a job there."""

from __future__ import annotations

from app.jobs import Job, Lane
from tests.processes import until

LANE = Lane("test", 2, limit_s=60.0, memory_bytes=1 << 30)


def ended(job: Job) -> Job:
    """The job after its end."""

    def over() -> bool:
        job.poll()
        return job.over

    until(over)
    return job
