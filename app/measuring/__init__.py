"""Run a model on this machine, keep the run, put it beside its prediction."""
