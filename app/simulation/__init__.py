"""Simulated serving: what a client offers, the requests of it, and what became of each."""
