"""From a name, a path, an address or a config to a checkpoint and its model."""
