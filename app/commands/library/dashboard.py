"""ridgeline app: open the dashboard."""

from __future__ import annotations

from typing import Annotated

import typer


def register(cli: typer.Typer) -> None:
    cli.command("app", help="Open the dashboard in a browser.")(app)


def app(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8501,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    import os
    import sys
    from importlib.util import find_spec
    from pathlib import Path

    import app
    from genz_core.errors import InvalidValue

    if find_spec("streamlit") is None:
        raise InvalidValue("streamlit is not installed; run: pip install ridgeline")
    entry = Path(app.__file__).with_name("main.py")
    options = {
        "server.address": host,
        "server.port": port,
        "server.headless": str(no_browser).lower(),
        "server.showEmailPrompt": "false",
        "browser.gatherUsageStats": "false",
        "server.fileWatcherType": "none",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    os.chdir(entry.parent)  # where .streamlit/config.toml lies
    command = [sys.executable, "-m", "streamlit", "run", str(entry), *flags]
    os.execv(sys.executable, command)
