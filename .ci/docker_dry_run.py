"""Carry out the Dockerfile where no container engine runs, then ask the program for its health.

Each stage gets an empty folder as its root. COPY copies into it, RUN runs in it with the absolute
paths of the Dockerfile led into that folder, COPY --from takes from the folder of the earlier
stage, and the last stage's CMD is started as its USER until its HEALTHCHECK succeeds. What would
change this machine (useradd, apt-get) is named and left out; the base image is this Python.

    python .ci/docker_dry_run.py [--build-arg NAME=VALUE]... [DOCKERFILE]
"""

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ABSOLUTE = re.compile(r"(?<![\w.:/-])/(?=[a-z])")
CHANGES_THE_MACHINE = re.compile(r"^(useradd|groupadd|adduser|apt-get|apk)\b")
INTERPRETER = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
IMAGE_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass
class Stage:
    root: Path
    environment: dict[str, str]
    folder: str = "/"
    user: int | None = None
    port: int = 0
    health: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def inside(self, text: str) -> str:
        """`text` with the absolute paths in it led into the root of the stage."""
        return ABSOLUTE.sub(f"{self.root}/", text)

    def path(self, place: str) -> Path:
        return self.root / os.path.join(self.folder, place).lstrip("/")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(keyword, rest) of every instruction, continued lines joined and comments dropped."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\s*\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            keyword, _, rest = line.strip().partition(" ")
            yield keyword.upper(), rest.strip()


def flags_and_words(rest: str) -> tuple[dict[str, str], list[str]]:
    words = shlex.split(rest)
    flags = [word for word in words if word.startswith("--")]
    return dict(f[2:].split("=", 1) for f in flags), [w for w in words if w not in flags]


class Build:
    """The state between two instructions: the finished stages and the one being built."""

    def __init__(self, context: Path, work: Path, arguments: dict[str, str]) -> None:
        self.context, self.work, self.arguments = context, work, arguments
        self.asked: set[str] = set()
        self.stages: dict[str, Path] = {}
        self.name = ""
        self.stage = Stage(work / "root", {})
        self.python = work / "python"
        self.python.mkdir()
        for alias in ("python", "python3"):
            (self.python / alias).symlink_to(INTERPRETER)

    def carry_out(self, keyword: str, rest: str) -> None:
        print(f"{keyword} {rest}", flush=True)
        getattr(self, f"do_{keyword.lower()}")(rest)

    def do_arg(self, rest: str) -> None:
        """An argument is a variable of the stage that names it; before any stage, of FROM lines."""
        name, given, default = rest.partition("=")
        self.asked.add(name)
        value = self.arguments.get(name, default if given else None)
        if value is not None:
            self.stage.environment[name] = shlex.split(value)[0] if value else ""

    def do_from(self, rest: str) -> None:
        self.finish()
        _, _, self.name = rest.partition(" AS ")
        root = self.work / "root"
        root.mkdir()
        path = f"{self.python}:{IMAGE_PATH}"
        # Where the registry is and whom to trust is the machine's matter, as in a real build.
        settings = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_"))}
        home = os.environ.get("HOME", "/")
        self.stage = Stage(root, {"PATH": path, "HOME": home, "LANG": "C.UTF-8", **settings})

    def finish(self) -> None:
        """Put the root of the built stage aside, so that the next one has the same place."""
        if self.name:
            self.stages[self.name] = self.stage.root.rename(self.work / f"stage-{self.name}")

    def do_workdir(self, rest: str) -> None:
        self.stage.folder = os.path.join(self.stage.folder, rest)
        self.stage.path(".").mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest: str) -> None:
        flags, (*sources, target) = flags_and_words(rest)
        origin = self.stages[flags["from"]] if "from" in flags else self.context
        for source in sources:
            found, place = origin / source.lstrip("/"), self.stage.path(target)
            if found.is_dir():
                shutil.copytree(found, place, symlinks=True, dirs_exist_ok=True)
            else:
                place = place / found.name if target.endswith("/") else place
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, place)

    def do_run(self, rest: str) -> None:
        command = re.sub(r"--mount=\S+\s*", "", rest)
        if CHANGES_THE_MACHINE.match(command):
            print("  left out: it would change this machine")
            return
        subprocess.run(
            ["/bin/sh", "-ec", self.stage.inside(command)],
            cwd=self.stage.path("."),
            env=self.stage.environment,
            stdin=subprocess.DEVNULL,
            check=True,
        )

    def do_env(self, rest: str) -> None:
        for word in shlex.split(rest):
            name, _, value = word.partition("=")
            old = self.stage.environment.get(name, "")
            self.stage.environment[name] = self.stage.inside(value).replace(f"${name}", old)

    def do_user(self, rest: str) -> None:
        self.stage.user = int(rest)

    def do_expose(self, rest: str) -> None:
        self.stage.port = int(rest)

    def do_volume(self, rest: str) -> None:
        if not self.stage.path(rest).is_dir():
            sys.exit(f"VOLUME {rest} is no folder of the image, so its user cannot write there")

    def do_healthcheck(self, rest: str) -> None:
        self.stage.health = json.loads(rest[rest.index("CMD ") + 4 :])

    def do_cmd(self, rest: str) -> None:
        self.stage.command = json.loads(rest)


def can_become_another_user() -> bool:
    return os.geteuid() == 0 and all(place.stat().st_mode & 1 for place in INTERPRETER.parents)


def serve_and_check(stage: Stage) -> None:
    """Start the stage's CMD on a free port, as its user, until its HEALTHCHECK succeeds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    home, user = stage.path("."), stage.user if can_become_another_user() else None
    if user is None:
        print("  CMD runs as this user: it cannot become another, or that one cannot read Python")
    else:
        for place in (home, *home.rglob("*")):
            shutil.chown(place, user, user)

    def start(words: list[str], stderr: int | None = None) -> subprocess.Popen[bytes]:
        words = [word.replace(str(stage.port), port) for word in words]
        environment = stage.environment | {"HOME": str(home)}
        program = resolved(words, stage)
        return subprocess.Popen(
            program, cwd=home, env=environment, user=user, stdin=subprocess.DEVNULL, stderr=stderr
        )

    server, started = start(stage.command), time.monotonic()
    try:
        while start(stage.health, stderr=subprocess.DEVNULL).wait():
            if server.poll() is not None or time.monotonic() - started > 60:
                sys.exit("the program did not become healthy within 60 seconds")
            time.sleep(2)
        print(f"healthy after {time.monotonic() - started:.1f} s")
    finally:
        server.terminate()
        server.wait()


def resolved(command: list[str], stage: Stage) -> list[str]:
    """`command` with its program looked up on the PATH of the stage."""
    program = shutil.which(command[0], path=stage.environment["PATH"])
    if program is None or not Path(program).is_relative_to(stage.root):
        sys.exit(f"{command[0]} is not in the image")
    return [program, *command[1:]]


def asked_for() -> tuple[Path, dict[str, str]]:
    """The Dockerfile and the build arguments of the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    beside = Path(__file__).parents[1] / "Dockerfile"
    parser.add_argument("dockerfile", nargs="?", type=Path, default=beside)
    chosen = parser.parse_args()
    pairs = [argument.partition("=") for argument in chosen.build_arg]
    return chosen.dockerfile, {name: value for name, _, value in pairs}


def main() -> None:
    dockerfile, arguments = asked_for()
    with tempfile.TemporaryDirectory(prefix="docker-dry-run-") as work:
        Path(work).chmod(0o755)
        build = Build(dockerfile.resolve().parent, Path(work), arguments)
        for keyword, rest in instructions(dockerfile.read_text(encoding="utf-8")):
            build.carry_out(keyword, rest)
        if unknown := arguments.keys() - build.asked:
            sys.exit(f"the Dockerfile asks for no argument {', '.join(sorted(unknown))}")
        serve_and_check(build.stage)


if __name__ == "__main__":
    main()
