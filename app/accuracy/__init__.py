"""How far off predictions are, on the measurements that ship."""
