"""A national hierarchy from real counts: what an agency would publish of every county of a country, at every level above it.

The true populations are public census counts: 3,143 counties of the United States in 51 states (2010, from a file that the
user has), or 1,503 communes of Morocco in 75 provinces and 12 regions (2024, in `bdp.datasets`). The release is simulated: noisy
answers at every level with a stated budget, and exact totals at one of them, as state totals are by law. Because a
population that is exact at one level leaves little to say above, the units are split into groups, whose sizes are made up:
`with_groups` says how.

Run it with ``python -m benchmarks.national_hierarchy`` for Morocco.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

import bayesdp as bdp

__all__ = ["make_release", "with_groups"]


def with_groups(counts: xr.DataArray, groups: Sequence[str], seed: int) -> xr.DataArray:
    """Split the population of each unit into groups at random: a made-up table whose totals are the real ones.

    Parameters
    ----------
    counts : xarray.DataArray
        Of one dimension, such as `bdp.datasets.morocco_communes()`.
    groups : sequence of str
        Their labels. The shares of the first are expected to be twice those of the second, and so on.
    seed : int

    Returns
    -------
    xarray.DataArray
        Dims ``(unit, group)``: multinomial counts with Dirichlet shares that vary between units, adding up to `counts`.
    """
    (dim,) = counts.dims
    rng = np.random.default_rng(seed)
    expected = 0.5 ** np.arange(len(groups))
    shares = rng.dirichlet(10.0 * expected / expected.sum(), counts.size)
    return xr.DataArray(
        rng.multinomial(counts.values, shares),
        dims=(dim, "group"),
        coords={
            **{name: own for name, own in counts.coords.items() if name != dim},
            dim: counts[dim],
            "group": list(groups),
        },
        name=counts.name,
        attrs={**counts.attrs, "made_up": f"the split into {', '.join(groups)}, with seed {seed}"},
    )


def make_release(
    table: xr.DataArray,
    levels: Sequence[str],
    exact: str,
    rho: float,
    seed: int | None = 2024,
) -> bdp.Release:
    """Play the agency: discrete Gaussian noise on cells and totals at each level, exact totals at one level.

    Parameters
    ----------
    table : xarray.DataArray
        Counts whose first dimension holds the units; group labels along it are the levels above, as ``state`` is.
    levels : sequence of str
        The levels above the units, such as ``["province", "region"]``; the country is always one more.
    exact : str
        The level whose totals are exact.
    rho : float
        Budget, zCDP: what moving one record within a unit of the exact level costs at most, in all. It is split evenly over
        the queries. Noise is drawn exactly.
    seed : int, optional
        Seed of a simulated release; None draws from the operating system's entropy.

    Returns
    -------
    Release
        With the guarantee of the composition. Measured at each level are the cells (where there are groups) and, below the
        level `exact`, the totals; those of the exact level and above are known.

    Raises
    ------
    ValueError
        If `exact` is no level.
    """
    unit = str(table.dims[0])
    rest = [str(dim) for dim in table.dims[1:]]
    order = [unit, *levels]
    if exact not in order:
        raise ValueError(f"exact must be one of the levels {order}, got {exact!r}")
    below = order[: order.index(exact)]
    queries = [bdp.Totals(table, by=level) for level in below]
    if rest:
        queries += [bdp.Totals(table, by=[level, *rest]) for level in order] + [bdp.Totals(table, by=rest)]
    if not queries:
        raise ValueError(f"with exact totals of every {unit} and no groups there is nothing left to measure")
    share = rho / len(queries)
    rng = None if seed is None else np.random.default_rng(seed)
    noisy = [bdp.mechanisms.DiscreteGaussian(query, rho=share).release(table, rng=rng) for query in queries]
    known = bdp.Totals(table, by=exact)
    totals = bdp.Release.from_published(table, exact=[bdp.Exact(known, known.apply(table))])
    return bdp.compose(*noisy, totals).release


if __name__ == "__main__":
    truth = with_groups(bdp.datasets.morocco_communes(), ["a", "b", "c"], seed=1)
    published = make_release(truth, ["province", "region"], "region", rho=0.5)
    print(published)
    print(published.guarantee)
    estimate = bdp.gls(published, "commune")
    by_province = bdp.Totals(truth, by="province")
    errors = estimate.mean(by_province) - by_province.apply(truth)
    print(f"root mean squared error of 75 provinces: {np.sqrt(np.mean(errors**2)):.2f}")
