"""Commands that predict: estimate, serve, sweep, ops, arch, modules."""
