"""Values that a link, a form or a file may contain, and the files and addresses that they
lead to.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATHS = (
    "/etc/passwd", "/etc/hosts.yaml", "../../../../etc/passwd", "views/../../../../etc/x",
    "~/.ssh/id_rsa", "~root/x.json", "file:///etc/passwd", "config.json", "./config.json",
    "card.yaml", ".", "..", "/", "//host/share", "\\\\host\\share", "C:\\x.json",
    "/proc/self/environ", "/dev/stdin", "BAIT/config.json", "BAIT/card.yaml", "BAIT",
    "BAIT/../BAIT/card.yml",
)  # fmt: skip
ADDRESSES = (
    "hf:owner/name", "hf:/etc/passwd", "hf:../..", "hf:./x", "hf:BAIT", "hf:~/x", "hf:a/b/c",
    "https://huggingface.co/owner/name", "hf.co/owner/name/tree/main", "http://169.254.169.254/x",
    "https://host/x.json", "//host/b.png", "ftp://host/x", "s3://bucket/x", "localhost:80",
)  # fmt: skip
MARKUP = (
    "![x](http://host/b.png)", "[x](http://host)", "<img src=//host/b.png>", "<script>x</script>",
    "www.host.org", "a@host.org", ":material/star:", ":red[x]", "$x$", "`id`", "$(id)",
    "; rm -rf ~", "{{7*7}}", "${jndi:ldap://host/a}", "%s%n", "=cmd|' /C calc'!A0", "--output=/x",
)  # fmt: skip
DOCUMENTS = (
    "{}", "[]", "null", '{"model_type": "llama"}', '{"_id": "![x](http://host/b.png)"}', "{" * 5000,
    '{"model_type": "llama", "hidden_size": 1e999}', '{"auto_map": {"AutoConfig": "x.y"}}',
    "!!python/object/apply:os.system [id]", "&a [*a]", "include: ../../x\nid: a\nname: a",
    "include: /etc/passwd", "include: BAIT/card.yaml\nid: a\nname: a", "id: ../x\nname: a",
)  # fmt: skip
NUMBERS = (
    "nan", "inf", "-inf", "-1", "0", "1e23", "1e999", "9" * 5000, "0x10", "1_0", "٣", "1.5", "",
    " ", "true", "1:inf:x2", "1:9:x1", "1:99999999:1", "1,,2", "1e8", "2147483648", "=1+1",
)  # fmt: skip
LETTERS = (
    "\x00", "a\x00b", "\r\n", "\u202egpt2", "\ufeff", "\ud800", "é" * 300, "𝕘𝕡𝕥2", "x" * 10_000,
    "a/" * 3000, "-" * 300, "(" * 300, "llama-" * 2000, "\x1b[31m", "|" * 99, "\u200b",
)  # fmt: skip
NAMES = (
    "meta-llama/Llama-3.1-8B",
    "gpt2",
    "h100-sxm5-80gb",
    "NVIDIA H100 80GB HBM3",
    "vllm",
    "fp8",
)


def values(count: int, bait: Path, seed: int = 20261122) -> list[str]:
    """The same values every time: every one of the lists, then two or three of them joined.

    bait: an absolute folder that contains a config.json and a card.yaml.
    """
    seeds = [*PATHS, *ADDRESSES, *MARKUP, *DOCUMENTS, *NUMBERS, *LETTERS, *NAMES]
    draw = random.Random(seed)
    joined = (
        draw.choice(("", "/", " ", "-", ".", ":", "\n")).join(
            draw.sample(seeds, draw.choice((2, 3)))
        )
        for _ in range(count - len(seeds))
    )
    return [text.replace("BAIT", str(bait)) for text in (*seeds, *joined)]


class Reaches(list[str]):
    """Files and addresses outside the allowed folders that were accessed."""

    def __init__(self, allowed: Sequence[Path]) -> None:
        names = (os.path.realpath, os.path.abspath)  # both of an interpreter behind a link
        self.allowed = tuple(str(name(folder)) for folder in allowed for name in names)
        self.watching = False

    def seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record an audit event of the interpreter if it accesses something outside."""
        if not self.watching:
            return
        if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.gethost")):
            self.append(f"{event} {arguments[1:]!r}")
        elif event in ("open", "os.listdir", "os.scandir", "os.chdir", "subprocess.Popen", "stat"):
            self.looked_at(event, arguments[0] if arguments else ".")

    def looked_at(self, event: str, path: Any) -> None:
        """Record a path outside the allowed folders; descriptors belong to files that are already
        open.
        """
        if isinstance(path, int):
            return
        whole = os.path.abspath(os.fspath(path) or ".")
        if not isinstance(whole, str) or not whole.startswith(self.allowed):
            self.append(f"{event} {whole!r}")


_WATCHED: list[Reaches] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for reaches in _WATCHED:
        reaches.seen(event, arguments)


@contextmanager
def watched(allowed: Sequence[Path]) -> Iterator[Reaches]:
    """Accesses inside the block; checking whether a file exists counts as one."""
    reaches, stat = Reaches(allowed), os.stat

    def watching_stat(path: Any, *arguments: Any, **keywords: Any) -> os.stat_result:
        reaches.seen("stat", (path,))
        return stat(path, *arguments, **keywords)

    if not _WATCHED:
        sys.addaudithook(_hook)  # it remains as long as the interpreter
    _WATCHED[:] = [reaches]
    os.stat, reaches.watching = watching_stat, True
    try:
        yield reaches
    finally:
        os.stat, reaches.watching = stat, False


Probe = Callable[[str], object]
