"""Run a model on this machine, keep the run, and compare it with its prediction."""
