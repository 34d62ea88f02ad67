"""Priors of the cells of a hierarchy, with the rates integrated out.

A count whose rate is a gamma variable is negative binomial when the rate is integrated out, and then the table moves without
waiting for rates that move a little at a time. What is left are hyperparameters, few for each area and each cell, which are
drawn given the table.
"""

from bayesdp.hierarchies.priors.base import CellPrior, FixedNegativeBinomial, FixedPoisson, simulate_counts
from bayesdp.hierarchies.priors.pooled import AreaAndCell, VaryingShares

__all__ = ["AreaAndCell", "CellPrior", "FixedNegativeBinomial", "FixedPoisson", "VaryingShares", "simulate_counts"]
