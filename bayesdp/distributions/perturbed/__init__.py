"""Laws of perturbed counts as PyMC distributions."""
