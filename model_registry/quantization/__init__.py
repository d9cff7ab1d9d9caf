"""Number formats of a checkpoint's tensors: from its config, and as requested by the user."""
