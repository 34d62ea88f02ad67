"""Trade-off functions: type II error of the best test as a function of its type I error; and their canonical noise.

The convention is that of Dong, Roth and Su (2022), "Gaussian differential privacy"; see `TradeOff`, whose
method `increasing` is the convention of paper 003.

- `base`: what every trade-off function has; `derived`: symmetrised, for groups, known between bounds;
- `laws`: those of (epsilon, delta), of mu and of two discrete laws; `laplace`: of Laplace noise;
  `of_laws`: those of laws that are handed in;
- `profile`: the (epsilon, delta) that one amounts to; `composition`: their tensor product; `description`: in files;
- `convolution`: the epsilon of products at a delta, between bounds; `loss_grid`: privacy losses rounded to either side;
- `noise`, `noise_laws`, `noise_recursion`: canonical noise.
"""

from __future__ import annotations

from bayesdp.privacy.tradeoffs import composition, derived
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp
from bayesdp.privacy.tradeoffs.of_laws import tradeoff

__all__ = ["TradeOff", "approximate_dp", "gaussian_dp", "tradeoff"]

# What a trade-off function makes of itself is itself one, of a module that builds on `base`.
TradeOff._symmetrised_with = derived.Symmetrised
TradeOff._grouped = derived.Grouped
TradeOff._tensor_product = composition.tensor_product
