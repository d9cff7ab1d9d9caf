"""Threads of a server take turns that are short beside what a page may wait for one."""

import asyncio
import sys
import tempfile

import pytest
from streamlit import config

from app import server


def test_threads_take_short_turns_while_a_server_runs(monkeypatch: pytest.MonkeyPatch):
    usual, headless = sys.getswitchinterval(), config.get_option("server.headless")
    monkeypatch.setattr(tempfile, "tempdir", None)
    config.set_option("server.headless", True)

    async def turn_s() -> float:
        async with server.running(server.app):
            return sys.getswitchinterval()

    try:
        assert asyncio.run(turn_s()) < 0.001 < usual
    finally:
        sys.setswitchinterval(usual)
        config.set_option("server.headless", headless)
