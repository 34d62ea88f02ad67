"""Trade-off functions: type II error of the best test by its type I error. Their canonical noise: `bayesdp.privacy.canonical`.

The convention is that of Dong, Roth and Su (2022), "Gaussian differential privacy"; see `TradeOff`, whose
method `increasing` is the convention of paper 003.
"""

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff

__all__ = ["TradeOff", "approximate_dp", "gaussian_dp", "tradeoff"]
