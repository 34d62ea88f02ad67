"""What only restates a paper: its statements, calculators and mechanisms, one module a paper.

- `subspace`: Gao, Gong and Yu (2022), Subspace Differential Privacy;
- `integer_subspace`: Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy;
- `semi_dp`: Cho and Awan, Formal Privacy Guarantees with Invariant Statistics;
- `bounded_statistics`: Liu (2019), proportions that add up to 1;
- `covariance_cone`: Liu (2019), covariance matrices;
- `models`: shares of noisy proportions in PyMC models.

Nothing else in the package imports these. Files that name a mechanism or a law of theirs are read all the same: `bayesdp` knows where
the names are, and imports their module when one is met.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesdp.papers import bounded_statistics, covariance_cone, integer_subspace, models, semi_dp, subspace

__all__ = ["bounded_statistics", "covariance_cone", "integer_subspace", "models", "semi_dp", "subspace"]

# Hidden from type checkers, which read the import above.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a paper when it is first asked for."""
        if name in __all__:
            return import_module(f"bayesdp.papers.{name}")
        raise AttributeError(f"module 'bayesdp.papers' has no attribute {name!r}; it offers {', '.join(__all__)}")
