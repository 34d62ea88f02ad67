"""Means and variances of draws against exact values, in standard errors."""

import arviz as az
import numpy as np
import numpy.typing as npt
from scipy.stats import norm

type Floats = npt.NDArray[np.float64]

STANDARD_ERRORS = 5.0
"""A mean over draws that is further than this from its exact value fails a test: 6e-7 for one of them."""

LEAST_EFFECTIVE = 150


def assert_mean(draws: Floats, exact: float, sd: float, what: str, *, errors: float = STANDARD_ERRORS) -> None:
    """A mean of dependent draws (chain, draw) against that of their law, in standard errors; false alarms: ``2 norm.sf(errors)``."""
    size = draws.size
    spread = float(np.ptp(draws))
    effective = size if spread == 0 else min(float(az.ess(draws.astype(float), method="mean")), size)
    assert effective > LEAST_EFFECTIVE, f"{what}: only {effective:.0f} effective draws"
    error = max(sd, 1e-12) / np.sqrt(effective) + 1e-9
    assert abs(draws.mean() - exact) < errors * error, (
        f"{what}: {draws.mean():.4f} from {effective:.0f} effective draws, exactly {exact:.4f} (sd {sd:.4f})"
    )


def assert_moments(
    draws: npt.ArrayLike, mean: npt.ArrayLike, variance: npt.ArrayLike | None, *, rate: float, what: str = "draws"
) -> None:
    """Means, and variances if given, of 1000 independent draws or more; `rate` is that of false alarms of all comparisons together."""
    drawn = np.asarray(draws, np.float64)
    drawn = drawn.reshape(len(drawn), -1)
    assert len(drawn) >= 1000, f"{what}: {len(drawn)} draws are too few for normal standard errors"
    centre = np.broadcast_to(np.reshape(mean, -1), drawn.shape[1:])
    compared = [("mean", drawn, centre)]
    if variance is not None:
        compared.append(("variance", (drawn - centre) ** 2, np.broadcast_to(np.reshape(variance, -1), drawn.shape[1:])))
    errors = float(norm.isf(0.5 * rate / (len(compared) * drawn.shape[1])))
    for name, values, exact in compared:
        found, error = values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))
        far = np.abs(found - exact) > errors * error + 1e-9 * (1.0 + np.abs(exact))
        assert not far.any(), (
            f"{what}: {name} {found[far]} of cells {np.flatnonzero(far)}, exactly {exact[far]}, more than {errors:.1f} "
            f"standard errors {error[far]}"
        )
