"""Simulated serving: the offered load, its requests, and what happened to each."""
