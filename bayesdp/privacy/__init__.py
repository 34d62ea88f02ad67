"""Privacy accounting without PyMC: conversions between definitions of privacy, and guarantees.

- Gaussian noise: zCDP and its conversion (`gaussian_rho`, `rho_to_epsilon`), the exact mechanism (`gaussian_delta`), on the integers
  (`discrete_gaussian_delta`), and the paper's `lemma_3_4_sigma` where it holds; what truncated noise costs (`truncated_epsilon`);
- sensitivities of linear queries, and what two tables can differ by (`SensitivitySpace`, `semi_adjacency`, `record_distance`): these
  know tables, and are imported when first used; of statistics of bounded data (`mean_sensitivity`, ...);
- trade-off functions, type II error against type I error: `approximate_dp`, `gaussian_dp`, `laplace_dp`, `tradeoff`, their methods
  (`group`, `canonical_noise`, ...), composition by `tensor_product`, `semi_first` and `composition_first`, and the (epsilon, delta)
  that they amount to; what a guarantee of Semi-DP is about: `SemiGuarantee`;
- what a mechanism protects: `Guarantee`, with rows `PairLoss` for pairs of neighbouring tables; losses over several steps:
  `group_loss`, and that grow with the distance: `smooth_loss`; the shape of Gaussian noise of least error: `optimal_factorization`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bayesdp.privacy.bounded import truncated_epsilon, truncated_normal_delta, truncated_normal_sigma, truncated_scale
from bayesdp.privacy.canonical import CanonicalNoise
from bayesdp.privacy.caveats import FLOATING_POINT_CAVEAT
from bayesdp.privacy.factorization import Factorization, optimal_factorization
from bayesdp.privacy.gaussian import (
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_rho,
    gaussian_sigma,
    gaussian_sigma_for_mu,
    gaussian_sigma_for_rho,
    lemma_3_4_sigma,
    rho_to_delta,
    rho_to_epsilon,
    rho_within,
)
from bayesdp.privacy.guarantee import Guarantee, StatisticGuarantee, group_loss
from bayesdp.privacy.losses import split_budget
from bayesdp.privacy.sensitivities.norms import DIFFERENCES, Difference
from bayesdp.privacy.sensitivities.statistics import (
    Sensitivity,
    covariance_sensitivity,
    mean_sensitivity,
    moment_sums_sensitivity,
    proportion_sensitivity,
    variance_sensitivity,
)
from bayesdp.privacy.smooth import smooth_gaussian_delta, smooth_loss
from bayesdp.privacy.tradeoffs.base import TradeOff, composition_first, semi_first, tensor_product
from bayesdp.privacy.tradeoffs.laws import (
    approximate_dp,
    describe_tradeoff,
    gaussian_dp,
    laplace_dp,
    tradeoff,
    tradeoff_from_description,
)
from bayesdp.privacy.tradeoffs.profile import tradeoff_delta, tradeoff_epsilon
from bayesdp.privacy.words import EXACT_SAMPLER, PairLoss, SamplerStatement, gaussian_pairs, pure_pairs

if TYPE_CHECKING:
    from bayesdp.privacy.semi_guarantees import SemiGuarantee
    from bayesdp.privacy.sensitivities.adjacency import conforming_pairs, record_distance
    from bayesdp.privacy.sensitivities.queries import neighbour_differences, projected_sensitivity, query_sensitivity
    from bayesdp.privacy.sensitivities.semi_adjacent import SemiAdjacency, semi_adjacency
    from bayesdp.privacy.sensitivities.space import Inclusions, SensitivitySpace, inclusions

__all__ = [
    "DIFFERENCES", "EXACT_SAMPLER", "FLOATING_POINT_CAVEAT", "CanonicalNoise", "Difference", "Factorization", "Guarantee",
    "Inclusions", "PairLoss", "SamplerStatement", "SemiAdjacency", "SemiGuarantee", "Sensitivity", "SensitivitySpace",
    "StatisticGuarantee", "TradeOff", "approximate_dp", "composition_first", "conforming_pairs", "covariance_sensitivity",
    "describe_tradeoff", "discrete_gaussian_delta", "discrete_gaussian_epsilon", "gaussian_delta", "gaussian_dp",
    "gaussian_epsilon", "gaussian_mu", "gaussian_pairs", "gaussian_rho", "gaussian_sigma", "gaussian_sigma_for_mu",
    "gaussian_sigma_for_rho", "group_loss", "inclusions", "laplace_dp", "lemma_3_4_sigma", "mean_sensitivity",
    "moment_sums_sensitivity", "neighbour_differences", "optimal_factorization", "projected_sensitivity",
    "proportion_sensitivity", "pure_pairs", "query_sensitivity", "record_distance",
    "rho_to_delta", "rho_to_epsilon", "rho_within", "semi_adjacency", "semi_first", "smooth_gaussian_delta",
    "smooth_loss", "split_budget", "tensor_product", "tradeoff", "tradeoff_delta", "tradeoff_epsilon",
    "tradeoff_from_description", "truncated_epsilon", "truncated_normal_delta", "truncated_normal_sigma", "truncated_scale",
    "variance_sensitivity",
]  # fmt: skip

_MODULES = {
    "privacy.semi_guarantees": ("SemiGuarantee",),
    "privacy.sensitivities.adjacency": ("conforming_pairs", "record_distance"),
    "privacy.sensitivities.queries": ("neighbour_differences", "projected_sensitivity", "query_sensitivity"),
    "privacy.sensitivities.semi_adjacent": ("SemiAdjacency", "semi_adjacency"),
    "privacy.sensitivities.space": ("Inclusions", "SensitivitySpace", "inclusions"),
}
_TABLES = {name: module for module, names in _MODULES.items() for name in names}
"""Public names of modules that need tables, queries and invariants, and where they are."""

# Hidden from type checkers, which read the import above.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import what knows tables when it is first asked for."""
        if name in _TABLES:
            return getattr(import_module(f"bayesdp.{_TABLES[name]}"), name)
        raise AttributeError(f"module 'bayesdp.privacy' has no attribute {name!r}; it offers {', '.join(__all__)}")
