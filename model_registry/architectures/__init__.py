"""One file a family: a function that reads its config into a `ModelSpec`."""
