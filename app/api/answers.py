"""Answers as JSON: short questions are answered here, long ones in processes; the latest are
cached.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.answers.table import to_json
from app.api import uploads, verbs
from app.api.bodies import Body, StudyBody, body_of
from app.api.uploads import Sent
from app.api.workers import Workers
from app.line import line_answer
from hardware_db.data_folder import stamp

#: Verbs that answer in well under a second; the others may take long.
SHORT = ("estimate", "serve", "sensitivity", "economics", "ops")


@dataclass(eq=False)
class Answers:
    """Answers questions.  most_bytes: size limit of the cache of answers."""

    workers: Workers = field(default_factory=Workers)
    most_bytes: int = 64 << 20
    _kept: OrderedDict[Any, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def kept(self, body: Body) -> bytes | None:
        """The cached answer to a question, if it is still valid."""
        with self._guard:
            key = _key(body)
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def answer(self, body: Body) -> bytes:
        """The document of a body's verb as JSON.

        Raises:
            RidgelineError: as the verb; Busy and Exhausted of `Workers`.
        """
        key = _key(body)
        if body.verb in SHORT:
            found = _json(verbs.answer(body))
        else:
            found = self._made(f"{body.verb} of {body.model}", verbs.answer, body)
        self._keep(key, found)
        return found

    def of_line(self, text: str) -> bytes:
        """A typed line, its interpretation, and the answer of its verb.

        Raises:
            RidgelineError: a part of it is not understood; otherwise as `answer`.
            ValidationError: a value whose type the verb's body does not accept.
        """
        line = line_answer.readable(text)
        body = body_of(line.verb, line_answer.listed(line))
        found = self.kept(body) or self.answer(body)
        return _json(line_answer.document(line, json.loads(found)))

    def study(self, body: StudyBody) -> bytes:
        """A technology study.  Errors as `app.decide.study.study` and `Workers.call`."""
        document = body.model_dump(exclude_none=True)
        return self._made(f"study {body.title[:60]!r}", verbs.study, document)

    def imported(self, files: list[Sent], by_shape: bool = False) -> bytes:
        """The figures of files.  Errors as `uploads.imported` and `Workers.call`."""
        return self._made(f"import of {_named(files)}", uploads.imported, files, by_shape)

    def trace(self, file: Sent) -> bytes:
        """The content of a Chakra trace.  Errors as `step_trace.read_rows` and `Workers.call`."""
        return self._made(f"trace {_named([file])}", verbs.trace, file.content)

    def of_files(self, files: list[Sent], body: Body, baseline: list[Sent] | None = None) -> bytes:
        """The comparison or verdict for files.  Errors as `uploads.answered` and `Workers.call`."""
        title = f"{body.verb} of {_named(files)}"
        return self._made(title, uploads.answered, files, body, baseline or [])

    def _made(self, title: str, function: Callable[..., Any], *arguments: Any) -> bytes:
        """What a function returns, as JSON, computed in a process.  Errors as `Workers.call`."""
        return bytes(self.workers.call(_returned, (function, arguments), title))

    def _keep(self, key: Any, found: bytes) -> None:
        with self._guard:
            if key in self._kept or len(found) > self.most_bytes // 8:
                return
            self._kept[key] = found
            self._bytes += len(found)
            while self._bytes > self.most_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])


def _key(body: Body) -> Any:
    """Everything that the answer to a question depends on: the question, and the user's own
    files.
    """
    return body.verb, body.model_dump_json(), json.dumps(dict(body.given)), stamp()


def _named(files: list[Sent]) -> str:
    """Files as a short text; names come from the sender."""
    return f"{len(files)} files" if len(files) > 1 else f"{files[0].name[:60]!r}"


def _returned(asked: tuple[Callable[..., Any], tuple[Any, ...]]) -> bytes:
    function, arguments = asked
    return _json(function(*arguments))


def _json(document: Any) -> bytes:
    return to_json(document, compact=True).encode("utf-8", "replace")
