"""A small server of OpenAI's completions with times and faults that a test chooses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Tokens of any prompt, and of each word.
FIXED, PER_WORD = 3, 2


@dataclass
class Behaviour:
    """The server's behaviour.

    first_s, gap_s: until the first piece, and between two.  per_piece: tokens of a piece.
    unknown: fields that it refuses.  usage: whether it reports token counts.
    fault: "" or the name of a method of `_Faults`, after `good` requests without one.
    page: the content of /metrics at each request; empty for none.
    wrote_s: of every answer, when its pieces were written.  open, most_open: requests in flight.
    """

    first_s: float = 0.0
    gap_s: float = 0.0
    per_piece: int = 1
    unknown: tuple[str, ...] = ()
    usage: bool = True
    models: tuple[str, ...] = ("small",)
    fault: str = ""
    good: int = 0
    page: Iterator[str] | None = None
    address: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    wrote_s: list[list[float]] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(**behaviour: Any) -> Iterator[Behaviour]:
    """The server, running inside the block."""
    asked = Behaviour(**behaviour)
    handler = type("Handler", (_Handler,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    asked.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield asked
    finally:
        asked.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    asked: Behaviour
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._answer(200, {"data": [{"id": name} for name in self.asked.models]})
        elif self.path == "/metrics" and self.asked.page is not None:
            data = next(self.asked.page).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.is_open = True
        with self.asked.lock:
            faulty = self.asked.fault and len(self.asked.bodies) >= self.asked.good
            self.asked.bodies.append(body)
            self.asked.open += 1
            self.asked.most_open = max(self.asked.most_open, self.asked.open)
        try:
            getattr(self, f"_{self.asked.fault}" if faulty else "_complete")(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            self._count_out()

    def _count_out(self) -> None:
        """Count the request as answered, before the client can know that it is."""
        with self.asked.lock:
            self.asked.open -= self.is_open
        self.is_open = False

    # --------------------------------------------------------------------------- as it should be

    def _complete(self, body: dict[str, Any], pieces: int | None = None) -> None:
        unknown = [name for name in body if name in self.asked.unknown]
        if unknown:
            self._answer(422, {"detail": f"Unexpected fields in the request: {unknown}"})
        elif body["model"] not in self.asked.models:
            self._answer(
                404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
            )
        else:
            self._stream(body, pieces)

    def _stream(self, body: dict[str, Any], pieces: int | None) -> None:
        self._begin()
        wrote: list[float] = []
        self.asked.wrote_s.append(wrote)
        whole = -(-body["max_tokens"] // self.asked.per_piece)
        for number in range(whole if pieces is None else pieces):
            self.asked.stop.wait(self.asked.gap_s if number else self.asked.first_s)
            wrote.append(time.perf_counter())
            self._event({"choices": [{"text": "word ", "finish_reason": None}]})
        if pieces is None:
            usage = {
                "prompt_tokens": FIXED + PER_WORD * len(body["prompt"].split()),
                "completion_tokens": body["max_tokens"],
            }
            last = {"choices": [{"text": "", "finish_reason": "length"}]}
            self._event({**last, "usage": usage} if self.asked.usage else last)
            self._count_out()
            self._write("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _begin(self, kind: str = "text/event-stream") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _event(self, event: dict[str, Any]) -> None:
        self._write(f"data: {json.dumps(event)}\n\n")

    def _write(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _answer(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # --------------------------------------------------------------------------- faults

    def _hangs(self, body: dict[str, Any]) -> None:
        self._begin()
        self.asked.stop.wait(60.0)

    def _drips(self, body: dict[str, Any]) -> None:
        self._begin()
        while not self.asked.stop.wait(0.05):
            self._write(": still there\n\n")

    def _ends_early(self, body: dict[str, Any]) -> None:
        self._complete(body, pieces=2)

    def _breaks_off(self, body: dict[str, Any]) -> None:
        self._begin()
        self._event({"choices": [{"text": "word "}]})
        self.wfile.write(b"ff\r\nhalf of it")
        self.wfile.flush()
        self.close_connection = True

    def _never_answers(self, body: dict[str, Any]) -> None:
        self.close_connection = True

    def _writes_nothing(self, body: dict[str, Any]) -> None:
        self._begin()
        self._event({"choices": [{"text": "", "finish_reason": "stop"}]})
        self.wfile.write(b"0\r\n\r\n")

    def _garbage(self, body: dict[str, Any]) -> None:
        self._begin("text/html")
        self._write("<html><body>Welcome</body></html>\n")
        self.wfile.write(b"0\r\n\r\n")

    def _no_json(self, body: dict[str, Any]) -> None:
        self._begin()
        self._write("data: {not json\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _strange_choices(self, body: dict[str, Any]) -> None:
        self._begin()
        self._event({"choices": [["text"]]})
        self.wfile.write(b"0\r\n\r\n")

    def _fails(self, body: dict[str, Any]) -> None:
        self._begin()
        self._event({"choices": [{"text": "word "}]})
        self._event({"error": {"message": "CUDA out of memory"}})
        self.wfile.write(b"0\r\n\r\n")

    def _overloaded(self, body: dict[str, Any]) -> None:
        self._answer(503, {"detail": "queue is full"})
