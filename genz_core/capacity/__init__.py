"""What a device holds: weights, cache and activations, offload, a second memory."""
