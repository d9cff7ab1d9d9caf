"""Kinds of models: experts, adapters, diffusion, drafts, and the degrees that divide them."""
