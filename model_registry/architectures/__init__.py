"""One file per family: a function that reads its config into a `ModelSpec`."""
