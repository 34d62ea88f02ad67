"""The lattice Gaussian law as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.lattice.lattice_gaussian import LatticeGaussian as LatticeGaussianLaw

__all__ = ["LatticeGaussian"]

LatticeGaussian = table_distribution(
    LatticeGaussianLaw,
    r"""Integer tables that share the invariants of mu, with Gaussian mass around it.

.. math:: f(x \mid \mu, \sigma) = e^{-\|x - \mu\|_2^2 / 2\sigma^2} / Z(\sigma), \qquad A x = A \mu

The log-mass is finite for tables that break the invariants too: in a model, membership is decided by
the exact part of a release alone, and its value there is the formula above. A free variable (noise around a known
table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs` samples it, and is assigned by itself.

Parameters
----------
mu : tensor_like of int, shape (..., *table)
    The table that the noise was added to.
sigma : tensor_like of float
    Scale in counts (sigma > 0), one for a table.
invariants : Invariants
    What the noise does not change.

Raises
------
NotImplementedError
    If sigma is not a constant and Z is not computed for these invariants. Where it is, it is for every positive
    sigma, with its gradient: see ``bayesdp.noise.LatticeGaussian.log_normaliser``. For a constant sigma, an
    unknown Z is left out.

See Also
--------
bayesdp.LatticeGaussian : the mechanism of the same name; it takes privacy parameters.
bayesdp.noise.LatticeGaussian : the same law without PyMC.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = LatticeGaussian("noisy", counts, 5.0, invariants=margins, observed=table.values)
""",
)
