"""``bdp.compare_laws``: one model under several noise laws, where it is not known which one is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import instance, probability, shown
from bayesdp.measurements import Measured, described
from bayesdp.noise.base import NoiseLaw
from bayesdp.posterior.summaries import summary
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage.posteriors import converged_of

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True, eq=False)
class LawComparison:
    """Posteriors of one model under several noise laws, side by side and not averaged.

    `table` has a row a quantity and law, with the index levels ``part``, ``label`` and ``law``, and the columns ``mean``, ``sd``,
    ``lower``, ``upper`` (of equal-tailed intervals with probability `prob`), ``ess_bulk`` and ``rhat``.
    """

    laws: Mapping[str, NoiseLaw]
    table: pd.DataFrame
    prob: float
    posteriors: Mapping[str, xr.DataTree]

    @property
    def spread(self) -> pd.DataFrame:
        """How far the laws are apart, one row a quantity.

        Columns: ``mean_lowest`` and ``mean_highest`` of the laws, ``spread`` (their difference), ``spread_in_sd`` (in the smallest
        posterior standard deviation; NaN where that is 0), and ``lower`` and ``upper``, the ends of the smallest interval that
        holds those of all laws. That interval is no credible interval of any law.
        """
        by = self.table.groupby(level=["part", "label"], sort=False)
        lowest, highest = by["mean"].min(), by["mean"].max()
        sd = by["sd"].min()
        return pd.DataFrame({
            "mean_lowest": lowest,
            "mean_highest": highest,
            "spread": highest - lowest,
            "spread_in_sd": (highest - lowest) / sd.where(sd > 0),
            "lower": by["lower"].min(),
            "upper": by["upper"].max(),
        })  # fmt: skip

    @property
    def converged(self) -> dict[str, bool | None]:
        """Whether the chains of each law agree, as `bayesdp.sample` found; None where that was not recorded."""
        return {name: converged_of(posterior) for name, posterior in self.posteriors.items()}

    def __repr__(self) -> str:
        names = shown(list(self.laws))
        lines = [f"<LawComparison of {len(self.laws)} laws, none of them weighed: {names}"]
        apart = self.spread["spread_in_sd"].dropna()
        if len(apart):
            furthest: Any = apart.idxmax()
            where = ": ".join(printable(str(own)) for own in furthest if own)
            told = f"{apart.max():.2g} posterior sd ({where}, over {len(self.spread)} quantities)"
            lines.append(f"  means differ by up to {told}")
        bad = [name for name, good in self.converged.items() if good is False]
        if bad:
            lines.append(f"  chains do not agree under {shown(bad)}")
        return "\n".join(lines) + ">"


def compare_laws(
    release: Release,
    laws: Mapping[str, NoiseLaw] | Sequence[NoiseLaw],
    model: Callable[[Release], pm.Model],
    quantities: str | Sequence[str] | Query | None = None,
    *,
    measurements: Sequence[int | str] | None = None,
    prob: float = 0.95,
    **sampling: Any,
) -> LawComparison:
    """Fit one model under several noise laws, and show how much the answers depend on the law.

    Offices that perturb tables by cell keys or round them often keep the table of perturbations, or parts of it, secret. A
    posterior under one guess looks more certain than it is. The laws are **not weighed** against one another, and nothing is
    averaged. A perturbed table says little about the law that perturbed it, and what it says depends on the prior of the counts;
    whoever has probabilities for the laws can mix the draws of `LawComparison.posteriors` by them.

    Parameters
    ----------
    release : Release
        Its own laws are replaced; what is exact stays. Mechanism and guarantee, which belong to its own laws, are left out.
    laws : mapping of str to NoiseLaw, or sequence of NoiseLaw
        At least two. In a sequence their names are as they print. ValueError names one that cannot have given the published numbers.
    model : callable
        From a release to a model that has observed it.
    quantities : optional
        What to compare: names of variables (a ratio is a ``pm.Deterministic`` of the model), or a query of the table; by default what
        `bayesdp.summary` shows.
    measurements : sequence of int or str, optional
        Places or names of the measurements whose law is replaced; all by default.
    prob : float, default 0.95
        Probability of the equal-tailed intervals.
    **sampling
        As for `bayesdp.sample`. Each law is a model of its own, which is compiled anew.

    See Also
    --------
    bayesdp.plots.law_comparison : the picture.

    Examples
    --------
    >>> import bayesdp as bdp
    >>> import pymc as pm
    >>> county = {"county": ["Alpha", "Beta"]}
    >>> measured = bdp.Measured(bdp.Identity(county), [30, 80], bdp.noise.DiscreteGaussian(sigma=5.0))
    >>> release = bdp.Release.from_published(county, measured=[measured], exact=[bdp.Exact(bdp.Totals(county), 100)])
    >>> def model(release):
    ...     with pm.Model(coords=release.coords) as made:
    ...         bdp.observe(release, bdp.FlatCounts("x", dims="county"))
    ...     return made
    >>> laws = {"V = 4": bdp.noise.DiscreteGaussian(sigma=2.0), "V = 100": bdp.noise.DiscreteGaussian(sigma=10.0)}
    >>> few = {"draws": 200, "tune": 50, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}
    >>> compared = compare_laws(release, laws, model, "x", **few)
    >>> compared.table.loc[("x", "county=Alpha")].index.tolist()
    ['V = 4', 'V = 100']
    >>> bool(compared.spread["spread"].max() < 2.0)
    True
    """
    import pymc as pm  # here: a summary of a file needs no PyMC

    from bayesdp.inference import sample

    instance(release, Release, "release must be a bayesdp.Release")
    named = _named(laws)
    level = probability(prob, "prob")
    places = _places(release, measurements)
    releases = {name: _under(release, law, places, name) for name, law in named.items()}
    posteriors, tables = dict[str, xr.DataTree](), list[pd.DataFrame]()
    for name, own in releases.items():
        made = model(own)
        instance(made, pm.Model, "model must give a pymc.Model")
        try:
            posteriors[name] = sample(model=made, **sampling)
        except ValueError as error:
            # Most often no table can have been published so under this law, which then is not a plausible one.
            raise ValueError(f"under the law {name!r}: {error}") from error
        tables.append(_rows(posteriors[name], quantities, level, name))
    # All laws of a quantity one below the other, quantities in their order.
    order = {key[:-1]: i for i, key in enumerate(tables[0].index)}
    table = pd.concat(tables)
    place = np.array([order[key[:-1]] for key in table.index])
    return LawComparison(named, table.iloc[np.argsort(place, kind="stable")], level, posteriors)


def _named(laws: Mapping[str, NoiseLaw] | Sequence[NoiseLaw]) -> dict[str, NoiseLaw]:
    given: Any = laws
    if isinstance(given, NoiseLaw) or not isinstance(given, (Mapping, Sequence)):
        raise TypeError(
            f"laws must be a mapping from names to noise laws, or a list of them, got {type(laws).__name__}"
        )
    pairs = list(given.items()) if isinstance(given, Mapping) else [(str(law), law) for law in given]
    for name, law in pairs:
        if not isinstance(law, NoiseLaw) or not isinstance(name, str):
            raise TypeError(f"laws must hold noise laws by name, got {law!r} under {name!r}")
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"laws must have distinct names, got {shown([name for name, _ in pairs])}")
    if len(pairs) < 2:
        raise ValueError("laws must be at least two: a single one is a posterior, see bayesdp.sample")
    return dict(pairs)


def _places(release: Release, measurements: Sequence[int | str] | None) -> set[int]:
    """Places of the measurements whose law is replaced."""
    many, names = len(release.measurements), [part.name for part in release.measurements]
    if not many:
        raise ValueError("release has no noisy measurement, so that there is no law to compare")
    if measurements is None:
        return set(range(many))
    if isinstance(measurements, str) or not isinstance(measurements, Sequence):
        raise TypeError(f"measurements must be a list of places or names, got {measurements!r}")
    found = set()
    for given in measurements:
        place = names.index(given) if isinstance(given, str) and given in names else given
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < many:
            known = shown(name for name in names if name is not None) or "none"
            raise ValueError(f"measurements must be places from 0 to {many - 1} or names ({known}), got {given!r}")
        found.add(place)
    if not found:
        raise ValueError("measurements names none")
    return found


def _under(release: Release, law: NoiseLaw, places: set[int], name: str) -> Release:
    """The release with another law."""
    parts = []
    for place, part in enumerate(release.measurements):
        if place not in places:
            parts.append(part)
            continue
        try:
            kept = part.invariants if law.keeps_invariants else None
            parts.append(Measured(part.query, part.given, law, kept, part.name, unmeasured=part.unmeasured))
        except ValueError as error:
            raise ValueError(f"the law {printable(name)} cannot be that of {described(part.query)}: {error}") from error
    return replace(release, measurements=tuple(parts), mechanism=None, guarantee=None)


def _rows(posterior: xr.DataTree, quantities: Any, level: float, law: str) -> pd.DataFrame:
    """The numbers of one posterior, with the law as the last level of the index."""
    var, query = (None, quantities) if isinstance(quantities, Query) else (quantities, None)
    table = summary(posterior, var, query=query, prob=level)
    ends = [name for name in table.columns if name.startswith("eti")]
    kept = table[["mean", "sd", *ends, "ess_bulk", "rhat"]].set_axis(
        ["mean", "sd", "lower", "upper", "ess_bulk", "rhat"], axis=1
    )
    exact = {"sd": 0.0, "lower": kept["mean"], "upper": kept["mean"]}  # of numbers that have no errors
    return kept.fillna(exact).assign(law=law).set_index("law", append=True).astype(np.float64)
