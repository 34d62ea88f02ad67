"""Two regressions on counts that were rounded at random to base 5: perturbed counts as the outcome, and as the covariate.

The regression of who holds rounded counts: take them as they are. As an outcome, unbiased rounding leaves coefficients about
where they are, and makes their standard errors too small, as rounded counts scatter more than Poisson ones. As a covariate, it
pulls the slope towards zero, as errors in variables do (Evans and King 2023). Here the law of rounding is part of the model:
the regression is that of the true counts, which are unknown.

Read from top to bottom: this is how such models are written. Run it with ``python models/perturbed_regressions.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt

import bayesdp as bdp

__all__ = [
    "build_model",
    "covariate_model",
    "make_release",
    "naive_outcome",
    "naive_slope",
    "simulate_covariate",
    "simulate_outcome",
]

AREAS = 60
LAW = bdp.noise.RandomRounding(5)
LEVEL, SLOPE = np.log(4.0), 0.5
"""Of log expected counts on a standardised public covariate."""
COUNT_MEAN, COUNT_SHAPE, EFFECT, SCATTER = 6.0, 1.5, 1.0, 0.5
"""Of the counts that are a covariate, of the outcome's slope on log(1 + count), and of the outcome's scatter."""

type Floats = npt.NDArray[np.float64]


def _published(true: npt.NDArray[np.int64], rng: np.random.Generator, *, simulated: bool = True) -> bdp.Release:
    labels = {
        "study": [f"study {r + 1}" for r in range(len(true))],
        "area": [f"area {i + 1}" for i in range(true.shape[1])],
    }
    rounded = LAW.draw(rng, true.shape, location=true)
    return bdp.Release.from_published(labels, [bdp.Measured(bdp.Identity(labels), rounded, LAW)], simulated=simulated)


def covariate(areas: int = AREAS) -> Floats:
    """The public covariate of the first regression: evenly spaced, standardised."""
    z = np.linspace(-1.0, 1.0, areas)
    return np.asarray(z / z.std())


def simulate_outcome(rng: np.random.Generator, studies: int = 1, areas: int = AREAS) -> bdp.Release:
    """Independent studies whose Poisson counts depend on the public covariate, published after rounding.

    Parameters
    ----------
    rng : numpy.random.Generator
    studies, areas : int
    """
    mean = np.exp(LEVEL + SLOPE * covariate(areas))
    return _published(rng.poisson(mean, (studies, areas)), rng)


def make_release(seed: int | None = 2023) -> bdp.Release:
    """One study of counts that are the outcome.

    Parameters
    ----------
    seed : int, optional
        Seed of a simulated release; None publishes for real, with the operating system's entropy.
    """
    rng = np.random.default_rng(seed)
    mean = np.exp(LEVEL + SLOPE * covariate())
    return _published(rng.poisson(mean, (1, AREAS)), rng, simulated=seed is not None)


def build_model(release: bdp.Release) -> pm.Model:
    """Poisson regression of true counts on a public covariate, given rounded counts; studies have nothing in common.

    Parameters
    ----------
    release : Release
        Of a table of studies by areas.
    """
    z = covariate(release.frame.shape[1])
    with pm.Model(coords=release.coords) as model:
        level = pm.Normal("level", 1.0, 1.5, dims="study")
        slope = pm.Normal("slope", 0.0, 1.0, dims="study")
        mean = pm.math.exp(level[:, None] + slope[:, None] * z[None, :])
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(mean), dims=release.dims)
        bdp.observe(release, x)
    return model


def simulate_covariate(rng: np.random.Generator, studies: int = 1, areas: int = AREAS) -> tuple[bdp.Release, Floats]:
    """Independent studies of an outcome that depends on ``log(1 + count)``, where the counts are published after rounding.

    Returns
    -------
    release : Release
        Of the counts.
    outcome : float64 array, shape (studies, areas)
        Known as it is.
    """
    counts = rng.poisson(rng.gamma(COUNT_SHAPE, COUNT_MEAN / COUNT_SHAPE, (studies, areas)))
    outcome = EFFECT * np.log1p(counts) + rng.normal(0.0, SCATTER, counts.shape)
    return _published(counts, rng), outcome


def covariate_model(release: bdp.Release, outcome: npt.ArrayLike, *, summed: bool = False) -> pm.Model:
    """Linear regression of an outcome on ``log(1 + true count)``, where the counts were rounded.

    Parameters
    ----------
    release : Release
        Of a table of studies by areas, cells only.
    outcome : array_like, shape (studies, areas)
    summed : bool
        Sum the true counts out of the model, which then has coefficients only. That is possible where each published number is about
        one count of its own, as here; with margins the counts are a variable, as they are by default.

    Notes
    -----
    The counts have a law of their own, a negative binomial one with unknown mean and shape: without it nothing says which
    of the counts that may stand behind a rounded one are common. A model of errors in variables needs all three: that law, the law of
    rounding, and the regression.
    """
    published = np.asarray(release.measurements[0].values, dtype=np.int64)
    law: Any = release.measurements[0].law
    with pm.Model(coords=release.coords) as model:
        level = pm.Normal("level", 0.0, 2.0, dims="study")
        slope = pm.Normal("slope", 0.0, 1.5, dims="study")
        scatter = pm.HalfNormal("scatter", 1.0, dims="study")
        log_mean = pm.Normal("log_mean", 1.5, 1.0, dims="study")
        log_shape = pm.Normal("log_shape", 0.0, 1.0, dims="study")

        def regression(counts: Any, given: Any, pad: tuple[Any, ...]) -> Any:
            line = level[pad] + slope[pad] * pt.log1p(counts)
            return pm.logp(pm.Normal.dist(line, scatter[pad]), given)

        def counts_law(pad: tuple[Any, ...], ones: Any) -> dict[str, Any]:
            return {"mu": pm.math.exp(log_mean)[pad] * ones, "alpha": pm.math.exp(log_shape)[pad] * ones}

        if summed:
            reach = np.arange(1 - law.base, law.base)
            counts = np.maximum(published[..., None] - reach, 0)  # those that can have led to a published number
            chance = np.where(published[..., None] >= reach, law.log_each(published[..., None], counts), -np.inf)
            pad: tuple[Any, ...] = (slice(None), None, None)
            base = pm.NegativeBinomial.dist(**counts_law(pad, 1.0))
            terms = pm.logp(base, counts) + regression(counts, np.asarray(outcome)[..., None], pad)
            terms = pt.switch(np.isfinite(chance), terms + np.where(np.isfinite(chance), chance, 0.0), -np.inf)
            pm.Potential("likelihood", pm.math.logsumexp(terms, axis=-1).sum())
        else:
            pad = (slice(None), None)
            base = pm.NegativeBinomial.dist(**counts_law(pad, np.ones(published.shape)))
            x = bdp.ConfidentialCounts("x", base, dims=release.dims)
            bdp.observe(release, x)
            line = level[pad] + slope[pad] * pt.log1p(x)
            pm.Normal("outcome", line, scatter[pad], observed=outcome, dims=release.dims)
    return model


def naive_outcome(release: bdp.Release) -> tuple[Floats, Floats]:
    """Slopes and standard errors of Poisson regressions of the rounded counts as they are: maximum likelihood.

    Returns
    -------
    slope, error : float64 arrays, shape (studies,)
    """
    y = np.asarray(release.measurements[0].values, dtype=float)
    z = covariate(y.shape[1])
    design = np.stack([np.ones_like(z), z], axis=1)
    found = []
    for own in y:
        b = np.array([np.log(max(own.mean(), 0.1)), 0.0])
        for _ in range(50):
            mean = np.exp(design @ b)
            information = design.T @ (mean[:, None] * design)
            step = np.linalg.solve(information, design.T @ (own - mean))
            b += step
            if np.abs(step).max() < 1e-10:
                break
        found.append((b[1], np.sqrt(np.linalg.inv(information)[1, 1])))
    slope, error = np.array(found).T
    return slope, error


def naive_slope(release: bdp.Release, outcome: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Slopes and standard errors of least squares of the outcome on ``log(1 + rounded count)``.

    Returns
    -------
    slope, error : float64 arrays, shape (studies,)
    """
    x = np.log1p(np.asarray(release.measurements[0].values, dtype=float))
    v = np.asarray(outcome, dtype=float)
    x = x - x.mean(axis=1, keepdims=True)
    squares = (x**2).sum(axis=1)
    slope = (x * v).sum(axis=1) / squares
    rest = v - v.mean(axis=1, keepdims=True) - slope[:, None] * x
    return slope, np.sqrt((rest**2).sum(axis=1) / (x.shape[1] - 2) / squares)


if __name__ == "__main__":
    published = make_release()
    with build_model(published):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc")
    print(posterior["diagnostics"].attrs["message"])
    drawn = posterior["posterior"].dataset["slope"].values.reshape(-1)
    simple, error = naive_outcome(published)
    low, high = np.quantile(drawn, [0.05, 0.95])
    print(
        f"counts as outcome, slope {SLOPE}: 90% from {low:.2f} to {high:.2f}; of the rounded counts as they are ",
        end="",
    )
    print(f"from {simple[0] - 1.645 * error[0]:.2f} to {simple[0] + 1.645 * error[0]:.2f}")
    release, known = simulate_covariate(np.random.default_rng(2023))
    with covariate_model(release, known):
        posterior = bdp.sample(chains=4, random_seed=1, nuts_sampler="pymc")
    print(posterior["diagnostics"].attrs["message"])
    low, high = np.quantile(posterior["posterior"].dataset["slope"].values, [0.05, 0.95])
    simple, error = naive_slope(release, known)
    print(
        f"counts as covariate, slope {EFFECT}: 90% from {low:.2f} to {high:.2f}; of the rounded counts as they are ",
        end="",
    )
    print(f"from {simple[0] - 1.645 * error[0]:.2f} to {simple[0] + 1.645 * error[0]:.2f}")
