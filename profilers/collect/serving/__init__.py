"""Serving engines under load: a client of OpenAI's streaming API, closed loops, result files."""
