"""Trade-off functions: type II error of the best test as a function of its type I error; and their canonical noise.

The convention is that of Dong, Roth and Su (2022), "Gaussian differential privacy"; see `TradeOff`, whose
method `increasing` is the convention of paper 003.

- `base`: what every trade-off function has, and those it makes of itself: symmetrised, for groups, known between bounds;
- `laws`: those of (epsilon, delta), of mu, of Laplace noise and of two discrete laws; `of_laws`: those of laws that are handed in;
- `profile`: the (epsilon, delta) that one amounts to; `description`: in files;
- `composition`: their tensor product, and its epsilon at a delta, between bounds; `noise`: canonical noise.
"""

from __future__ import annotations

from bayesdp.privacy.tradeoffs import composition
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.privacy.tradeoffs.of_laws import tradeoff

__all__ = ["TradeOff", "approximate_dp", "gaussian_dp", "tradeoff"]

# A product of trade-off functions is itself one, of a module that builds on `base`.
TradeOff._tensor_product = composition.tensor_product
