"""The log-density of published shares that add up to 1, as a term of a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytensor.tensor as pt

from bayesdp.noise.bounded.rescaled_laplace import RescaledLaplace, proportions

__all__ = ["rescaled_logp"]


def rescaled_logp(law: RescaledLaplace, shares: npt.ArrayLike, mu: Any) -> Any:
    """Log-density of published shares given confidential proportions, for `pymc.Potential`.

    Parameters
    ----------
    law : bayesdp.noise.RescaledLaplace
    shares : array_like, shape (categories,)
        Published: numbers. They decide on which face of the simplex the density is.
    mu : tensor, shape (categories,)
        Confidential proportions, for example counts divided by n.

    Returns
    -------
    tensor, scalar
        See `bayesdp.noise.RescaledLaplace`, whose `log_kernel` it is.

    Raises
    ------
    ValueError
        If the shares are not possible under the law.

    Examples
    --------
    >>> import pymc as pm
    >>> law = RescaledLaplace(0.1, "boundary-inflated")
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     shares = pm.Potential("shares", rescaled_logp(law, [0.0, 0.4, 0.6], p))
    """
    r = proportions(shares, "shares")
    if r.ndim != 1 or not np.isfinite(law.log_density(r, r)):
        raise ValueError(
            f"shares must be a vector that the law can give, at least 0 and adding up to 1, got {shares!r}"
        )
    return law.log_kernel(pt, r, pt.as_tensor_variable(mu))
