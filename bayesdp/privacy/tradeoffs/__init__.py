"""Trade-off functions: type II error of the best test as a function of its type I error; and their canonical noise.

The convention is that of Dong, Roth and Su (2022), "Gaussian differential privacy"; see `TradeOff`, whose
method `increasing` is the convention of paper 003.

- `noise`: canonical noise; `grid`: privacy losses on a grid, and their convolution;
- `base`: what every trade-off function has, those of two discrete laws, and those made from others, products among them;
- `laws`: those of (epsilon, delta), of mu and of Laplace noise; `of_laws`: those of laws that are handed in;
- `profile`: the (epsilon, delta) that one, or several together, amount to; `description`: in files.
"""

from __future__ import annotations

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.privacy.tradeoffs.of_laws import tradeoff

__all__ = ["TradeOff", "approximate_dp", "gaussian_dp", "tradeoff"]
