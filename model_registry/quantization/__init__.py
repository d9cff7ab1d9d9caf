"""Number formats of a checkpoint's tensors: from its config, and from the user's wishes."""
