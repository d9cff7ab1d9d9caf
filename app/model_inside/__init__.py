"""The inside of a model: layers, operators, and its builder compared with its trace."""
