"""Questions about what was interpreted: origins, gradients, modes, data."""
