"""A server with one job, for tests that kill it: `python -m tests.ops.server_with_job <folder>`."""

import sys
import time
from pathlib import Path

from app.jobs import MEASURING, Queue
from tests.app.jobs import works


def main(folder: Path) -> None:
    """Queue a job that starts programs; report when it has, and keep running."""
    queue = Queue(folder / "jobs")
    job = queue.submit(works.start_programs, folder, "Qwen3-8B", MEASURING)
    waiting = queue.submit(works.finish, None, "Qwen3-32B", MEASURING)
    while not job.share:
        job.poll()
        time.sleep(0.05)
    print(waiting.place, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
