"""An uploaded file: its kind, detected from its content, and its content.

Independent of Streamlit: large files are read in a separate process.
"""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.benchmarks import upload_parsing
from app.benchmarks.upload_parsing import SentResult
from app.measuring import report_reading
from app.measuring.report_reading import SentReport
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import ReportError
from model_registry.finding.gguf import MAGIC
from profilers import DEFAULT_PHASES, PhasePattern, Report
from profilers.serving_results import ServingMeasurement, is_result, server_log
from profilers.serving_results.server_log import ServerLog

Kind = Literal["report", "result", "log", "model", "system", "recording", "routing"]
#: A server reports its identity before its first request.
_LOG_BYTES = 4_000_000
_HEAD_BYTES = 1 << 16
_RECORDING = re.compile(r'\s*\{\s*"at"\s*:\s*[-+\d.eE]+\s*,\s*"(page|error)"\s*:')
_ROUTING = re.compile(
    r'\s*\{\s*"(logical_count|expert_load|counts)"\s*:\s*\[|\s*\[\s*\[|'
    r"(?=[^\n]*\blayer_id\b)(?=[^\n]*\bexpert_id\b)[^\n]*\bcount\b"
)
_CONFIG = re.compile(r'"(model_type|architectures)"\s*:')
_SYSTEM = re.compile(r"^(id|include|name|vendor|memory_gb)\s*:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file as uploaded.  name: of the file.  patterns: phases by range name, for a report."""

    name: str
    content: bytes
    patterns: tuple[PhasePattern, ...] = DEFAULT_PHASES


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that is read on use.  kind: format that its content suggests."""

    kind: Kind


Found = Report | list[ServingMeasurement] | ServerLog | Unread


def kind_of(sent: SentFile) -> Kind:
    """The kind of a file; "report" if unknown, whose readers then report the readable formats."""
    if sent.content.startswith(MAGIC):
        return "model"
    head = sent.content[:_HEAD_BYTES].decode("utf-8", "replace")
    if _RECORDING.match(head):
        return "recording"
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        path = Path(folder) / upload_parsing.base_name(sent.name)
        path.write_bytes(sent.content)
        if is_result(path):
            return "result"
    if server_log.is_text(sent.content[:_LOG_BYTES].decode("utf-8", "replace")):
        return "log"
    if _ROUTING.match(head):
        return "routing"
    if head.lstrip("\ufeff \t\r\n").startswith("{"):
        return "model" if _CONFIG.search(head) and '"traceEvents"' not in head else "report"
    named = sent.name.lower().endswith((".yaml", ".yml"))
    return "system" if named or _SYSTEM.match(head.lstrip()) else "report"


def read_sent(sent: SentFile, progress: Progress = silent, cancelled: Cancel = never) -> Found:
    """The content of a file.

    Raises:
        ReportError: it cannot be read, or the disk is full.
    """
    try:
        kind = kind_of(sent)
    except OSError as error:
        raise ReportError(
            f"{sent.name}: cannot be written to a temporary file ({error.strerror})"
        ) from None
    if kind == "report":
        report = SentReport(sent.name, sent.content, sent.patterns)
        return report_reading.read_sent(report, progress, cancelled)
    if kind == "result":
        return upload_parsing.read_sent(SentResult(sent.name, sent.content), progress, cancelled)
    if kind == "log":
        text = sent.content[:_LOG_BYTES].decode("utf-8", "replace")
        return server_log.parse(text, sent.name)
    return Unread(kind)


def size_of(found: Found) -> int:
    """Approximate memory of the content, in bytes."""
    if isinstance(found, Report):
        return report_reading.size_of(found)
    return upload_parsing.size_of(found) if isinstance(found, list) else 10_000
