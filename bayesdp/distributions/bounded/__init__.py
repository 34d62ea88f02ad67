"""PyMC distributions of independent values within bounds."""
