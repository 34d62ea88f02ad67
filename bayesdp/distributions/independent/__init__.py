"""PyMC distributions of independent noise."""
