"""The proxies of docs/examples, unchanged except for addresses and ports."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from tests.dashboards import free_port

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
#: The surroundings of files in conf.d: the parts of nginx.conf that every machine has.
_AROUND = """
daemon off; pid {folder}/pid; error_log stderr warn; {user}
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True, slots=True)
class Upstreams:
    """Addresses (host:port) that replace those of the compose file."""

    dashboard: str
    api: str

    def put_into(self, text: str, port: int) -> str:
        """An example with these addresses instead of its own, listening on a loopback port."""
        text = re.sub(r"\bdashboard:8501", self.dashboard, text)
        text = re.sub(r"\bapi:8600", self.api, text)
        return text.replace("listen 8080", f"listen 127.0.0.1:{port}").replace(
            ":8080 {", f"http://127.0.0.1:{port} {{"
        )


@contextlib.contextmanager
def proxy(program: str, upstreams: Upstreams, folder: Path) -> Iterator[str]:
    """nginx or caddy with the example of that name; yields its address."""
    port = free_port()
    if program == "nginx":
        user = "user root;" if os.geteuid() == 0 else ""
        around = _AROUND.format(folder=folder, user=user)
        (folder / "nginx.conf").write_text(around, encoding="utf-8")
        example = (EXAMPLES / "nginx.conf").read_text(encoding="utf-8")
        (folder / "site.conf").write_text(upstreams.put_into(example, port), encoding="utf-8")
        command = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    else:
        example = (EXAMPLES / "Caddyfile").read_text(encoding="utf-8")
        text = "{\n\tadmin off\n}\n" + upstreams.put_into(example, port)
        (folder / "Caddyfile").write_text(text, encoding="utf-8")
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    own = {**os.environ, "HOME": str(folder)}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=own
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(server, f"{url}/ridgeline/_stcore/health", folder / "log")
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(URLError, OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no answer through the proxy at {url}:\n{log.read_text()}")
