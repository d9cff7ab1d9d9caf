"""Number formats of a checkpoint's tensors: what its config says, what the user asks."""
