"""Noise on the lattice of integer tables that change no invariant, as PyMC distributions."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.lattice.lattice_gaussian import LatticeGaussian as LatticeGaussianLaw
from bayesdp.noise.lattice.lattice_laplace import LatticeLaplace as LatticeLaplaceLaw

LatticeGaussian = table_distribution(
    LatticeGaussianLaw,
    r"""Integer tables that share the invariants of mu, with Gaussian mass around it.

.. math:: f(x \mid \mu, \sigma) = e^{-\|x - \mu\|_2^2 / 2\sigma^2} / Z(\sigma), \qquad A x = A \mu

The log-mass is finite for tables that break the invariants too: in a model, membership is decided by
the exact part of a release alone, and its value there is the formula above. A free variable (noise around a known
table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs` samples it, and is assigned by itself.

Raises
------
NotImplementedError
    If sigma is not a constant and Z is not computed for these invariants. Where it is, it is for every positive
    sigma, with its gradient: see ``bayesdp.noise.LatticeGaussian.log_normaliser``. For a constant sigma, an
    unknown Z is left out.
""",
    example="5.0",
)


LatticeLaplace = table_distribution(
    LatticeLaplaceLaw,
    r"""Integer tables that share the invariants of mu, with exponentially falling mass around it.

.. math:: f(x \mid \mu, \epsilon) = e^{-\epsilon \|x - \mu\|} / Z(\epsilon), \qquad A x = A \mu

The log-mass is finite for tables that break the invariants too: in a model, membership is decided by
the exact part of a release alone, and its value there is the formula above. A free variable (noise around a known
table, such as zeros) never leaves the lattice: `bayesdp.steps.LatticeNoiseGibbs` samples it, and is assigned by itself.

Raises
------
NotImplementedError
    If epsilon is not a constant and Z is not computed for these invariants. Where it is, it is for every
    positive epsilon, with its gradient: see ``bayesdp.noise.LatticeLaplace.log_normaliser``. For a constant
    epsilon, an unknown Z is left out.
""",
    example="0.25",
)
