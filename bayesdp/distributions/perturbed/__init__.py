"""Laws of published counts that were perturbed, rounded or held back."""
