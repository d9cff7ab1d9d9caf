"""A server to be started by a command: faster with more sequences, out of memory beyond 32."""

from __future__ import annotations

import argparse
import sys
from http.server import ThreadingHTTPServer

from tests.profilers.collect.serving.sse_server import Behaviour, _Handler


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int)
    options.add_argument("--max-num-seqs", type=int, default=8)
    options.add_argument("--dies", action="store_true")
    given = options.parse_args()
    if given.max_num_seqs > 32:
        sys.exit("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB")
    behaviour = Behaviour(first_s=0.02, gap_s=0.08 / given.max_num_seqs)
    if given.dies:
        behaviour.models = ()
    handler = type("Handler", (_Handler,), {"asked": behaviour})
    ThreadingHTTPServer(("127.0.0.1", given.port), handler).serve_forever()


if __name__ == "__main__":
    main()
