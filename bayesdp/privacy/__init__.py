"""Privacy accounting without PyMC: conversions between definitions of privacy, and guarantees.

- zCDP of Gaussian noise and its conversion: `gaussian_rho`, `rho_to_epsilon`, ...
- the exact Gaussian mechanism: `gaussian_delta`, `gaussian_epsilon`, `gaussian_sigma`, `gaussian_mu`;
- the exact discrete Gaussian: `discrete_gaussian_delta`, `discrete_gaussian_epsilon`;
- what a mechanism protects: `Guarantee`, with rows `PairLoss` for pairs of neighbouring tables.
"""

from __future__ import annotations

from bayesdp.privacy.discrete_gaussian import discrete_gaussian_delta, discrete_gaussian_epsilon
from bayesdp.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sigma,
    gaussian_sigma_for_mu,
)
from bayesdp.privacy.guarantee import EXACT_SAMPLER, FLOATING_POINT_CAVEAT, Guarantee, gibbs_sampler
from bayesdp.privacy.pairs import DIFFERENCES, Difference, PairLoss, gaussian_pairs, pure_pairs
from bayesdp.privacy.zcdp import (
    gaussian_rho,
    gaussian_sigma_for_rho,
    rho_to_delta,
    rho_to_epsilon,
    rho_within,
)

__all__ = [
    "DIFFERENCES",
    "EXACT_SAMPLER",
    "FLOATING_POINT_CAVEAT",
    "Difference",
    "Guarantee",
    "PairLoss",
    "discrete_gaussian_delta",
    "discrete_gaussian_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_pairs",
    "gaussian_rho",
    "gaussian_sigma",
    "gaussian_sigma_for_mu",
    "gaussian_sigma_for_rho",
    "gibbs_sampler",
    "pure_pairs",
    "rho_to_delta",
    "rho_to_epsilon",
    "rho_within",
]
