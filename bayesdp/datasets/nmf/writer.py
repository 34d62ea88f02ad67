"""Synthetic noisy measurement files, from a table that is known: for tests, lessons and calibration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Ints
from bayesdp._validate import Seed, choice, generator_of, integer_array, positive_integer, positive_real, shown
from bayesdp.datasets.nmf.histograms import Binning
from bayesdp.datasets.nmf.layout import parquet
from bayesdp.datasets.nmf.measurements import discrete_variance
from bayesdp.datasets.nmf.products import RHO, Product, product_of, same_query, share_of
from bayesdp.noise import DiscreteGaussian

type Variance = float | Callable[[str, str], float] | None

_GROUP_ROWS = 4096
_DIGITS = {"US": 1, "State": 3, "County": 8, "Block": 26}
"""Digits of geocodes: of blocks at least as many. Those of a block without its last 18 are the tract, without 16 the group."""
_CAPACITY = 99_999
"""An upper limit of a facility of group quarters, or of the households of a block, as the constraints state it."""


def synthetic_spine(
    state: str, *, counties: int, tracts: int = 1, groups: int = 1, blocks: int = 1, aian: bool = False
) -> tuple[str, ...]:
    """Sorted geocodes of made-up blocks in the form of the redistricting file's spine.

    Parameters
    ----------
    state : str
        Two digits.
    counties, tracts, groups, blocks : int
        Counties in the state, tracts in a county, block groups in a tract, blocks in a block group; at most 9 groups and 999 blocks.
    aian : bool
        Whether the blocks are in the branch of American Indian and Alaska Native areas.

    Examples
    --------
    >>> synthetic_spine("50", counties=1, blocks=2)
    ('050100010001015000100010011001', '050100010001015000100010011002')
    """
    if len(state) != 2 or not state.isdigit():
        raise ValueError(f"state must have two digits, got {state!r}")
    largest = ((counties, "counties", 999), (tracts, "tracts", 9999), (groups, "groups", 9), (blocks, "blocks", 999))
    for count, name, most in largest:
        if positive_integer(count, name) > most:
            raise ValueError(f"{name} must be at most {most}, got {count}")
    branch = "1" if aian else "0"
    return tuple(
        f"{branch}{state}1{c:04d}{t:04d}{g:02d}{state}{c:03d}{t:04d}00{g}{g}{b:03d}"
        for c in range(1, counties + 1)
        for t in range(1, tracts + 1)
        for g in range(1, groups + 1)
        for b in range(1, blocks + 1)
    )


def write_synthetic_nmf(
    path: str | os.PathLike[str],
    truth: Mapping[str, npt.ArrayLike],
    product: str = "pl94-person",
    *,
    level: str = "Block",
    variance: Variance = None,
    queries: Iterable[str] | None = None,
    constraints: bool = True,
    partitions: str = "state",
    rng: Seed = None,
) -> Path:
    """Write noisy measurement files of a table that is known, in the layout of the published ones.

    The noise is drawn by `bayesdp.noise.DiscreteGaussian`, independently for each level and query. Integers are as narrow as the
    numbers of a partition allow, so that their widths differ between partitions as in the published files. Gives the folder that
    was made.

    Parameters
    ----------
    path : path
        The folder in which ``US_Person_PL_PROD`` and so on is made; it must not be there.
    truth : mapping
        Geocode of a leaf -> its histogram, of the shape of the product: (8, 2, 2, 63), (2,) or (42, 2, 116, 2, 63). `synthetic_spine`
        makes geocodes of blocks.
    product : {"pl94-person", "pl94-unit", "dhc-person"}
    level : str
        The level of the leaves.
    variance : float or callable, optional
        ``sigma**2`` of the noise, or a function of level and query that gives it. By default that of the published production
        settings, which are known here for ``pl94-person``. As in the published files, the column ``variance`` has the variance of
        the discrete noise, which is less than ``sigma**2`` where that is below 1.
    queries : iterable of str, optional
        Those that are measured; by default all of the product, and the total of the nation is not, as in the published files.
    constraints : bool
        Whether to write constraints: totals of the nation (persons) or of all geounits (units), limits of group quarters (at least one
        person in each block that has some), and that no minors live in nursing homes; for ``dhc-person`` the exact table of P.L. 94.
    partitions : {"state", "county"}
        ``State=50``; or ``State=50/County=10001`` from counties on, as the demonstration files of the DHC are published. How these
        spell counties is not documented; here it is by the digits of the geocode after the first three.
    rng : int, Generator or None
        Source of the noise: see `numpy.random.default_rng`.

    Raises
    ------
    ImportError, FileExistsError, ValueError
        Without pyarrow; if the folder is there already; if a histogram has another shape, negative numbers, or minors in nursing homes
        while constraints are asked for, a geocode is not of the level, or a variance is not known.
    """
    described = product_of(product)
    by_county = choice(partitions, ("state", "county"), "partitions") == "county"
    generator = generator_of(rng)
    leaves = _checked(truth, described, level, constraints)
    folder = Path(path) / f"US{described.suffix}"
    if folder.exists():
        raise FileExistsError(f"{folder} is there already")
    asked = {same_query(name) for name in (described.queries if queries is None else queries)}
    if not asked <= {same_query(name) for name in described.queries}:
        raise ValueError(
            f"queries must be some of {shown(described.queries, 20)}, got {shown([*queries] if queries else [])}"
        )
    measured = [query for query in described.queries if same_query(query) in asked]
    for upper in described.levels[: described.levels.index(level) + 1]:
        if upper in ("Prim", "Tract_Subset_Group", "Tract_Subset"):
            continue  # levels that published files do not have
        noisy_here = [query for query in measured if (upper, query) != ("US", "total")]  # which is exact
        sigma = {query: _sigma(variance, described, upper, query) for query in noisy_here}
        # How the geocodes of a partition start.
        digits = 0 if upper == "US" else 8 if by_county and upper != "State" else 3
        nodes: dict[str, dict[str, list[Ints]]] = {}
        for geocode, table in leaves.items():
            node = _node(geocode, upper, level)
            nodes.setdefault(node[:digits], {}).setdefault(node, []).append(table)
        for start, tables in sorted(nodes.items()):
            part = Path(f"State={int(start[:3]):02d}" if digits else "", f"County={start[3:]}" if digits > 3 else "")
            noisy: list[dict[str, Any]] = []
            exact: list[dict[str, Any]] = []
            for node, below in tables.items():
                table = np.sum(below, axis=0)
                noisy += _noisy_rows(described, node, table, sigma, generator)
                exact += _exact_rows(described, upper, node, table, below) if constraints else []
            _write(folder / f"{upper}.parquet" / "DPQuery" / part, noisy, described)
            _write(folder / f"{upper}.parquet" / "Constraint" / part, exact, described)
    return folder


def _checked(truth: Mapping[str, npt.ArrayLike], product: Product, level: str, constraints: bool) -> dict[str, Ints]:
    if level not in product.levels:
        raise ValueError(f"level must be one of {shown(product.levels, 10)}, got {level!r}")
    leaves = {}
    for geocode, values in sorted(truth.items()):
        if not (str(geocode).isdigit() and len(geocode) >= _DIGITS.get(level, 9)):
            raise ValueError(f"{geocode!r} is no geocode of the level {level}")
        array = integer_array(np.asarray(values), f"truth[{geocode!r}]")
        if array.shape != product.histogram.shape or array.min() < 0:
            raise ValueError(
                f"truth[{geocode!r}] must hold counts of shape {product.histogram.shape}, got shape {array.shape}, "
                f"the smallest number {array.min()}"
            )
        if constraints and product.name == "pl94-person" and array[3, 0].any():
            raise ValueError(f"truth[{geocode!r}] has minors in nursing homes, which the constraints rule out")
        leaves[geocode] = array
    if not leaves:
        raise ValueError("truth must have at least one leaf")
    return leaves


def _node(geocode: str, level: str, leaf: str) -> str:
    if level == leaf:
        return geocode
    if level == "US":
        return "0"
    if level in ("State", "County"):
        return geocode[: _DIGITS[level]]
    if leaf != "Block":
        return geocode[:-2]  # a block group's tract
    return geocode[:-18] if level == "Tract" else geocode[:-16]


def _write(folder: Path, rows: list[dict[str, Any]], product: Product) -> None:
    if not rows:
        return
    arrow, pq = parquet()
    folder.mkdir(parents=True)
    largest = max(int(np.abs(row["value"]).max()) for row in rows)
    integer = next(kind for kind in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max)
    kinds = dict.fromkeys(("geocode", "query_name", *product.histogram.names), arrow.string())
    kinds |= {"query_shape": arrow.list_(arrow.int32()), "value": arrow.list_(arrow.from_numpy_dtype(integer))}
    kinds |= {"variance": arrow.float32()} | ({"sign": arrow.string()} if "sign" in rows[0] else {})
    whole = [row | {"value": row["value"].astype(integer)} for row in rows]
    table = arrow.Table.from_pylist(whole, arrow.schema(kinds))
    pq.write_table(table, folder / "part-0.parquet", row_group_size=_GROUP_ROWS)


def histogram_sums(table: Ints, bins: Iterable[Binning]) -> Ints:
    """A histogram summed by one binning an axis; values that are in no group are left out."""
    for axis, binning in enumerate(bins):
        groups = [table.take(members, axis=axis).sum(axis=axis) for members in binning.members]
        table = np.stack(groups, axis=axis)
    return table


def _sigma(variance: Variance, product: Product, level: str, query: str) -> float:
    """The scale of the noise of a query at a level."""
    if callable(variance):
        square = positive_real(variance(level, query), f"variance({level!r}, {query!r})")
    elif variance is not None:
        square = positive_real(variance, "variance")
    elif product.name != "pl94-person":
        raise ValueError(
            f"variance must be given for {product.name}: the published settings are known here for pl94-person"
        )
    else:
        square = float(1 / (RHO * share_of(level, query)))
    sigma = float(np.sqrt(square))
    if np.float32(discrete_variance(sigma)) == 0.0:
        raise ValueError(
            f"variance must leave noise: with sigma**2 = {square:g} for {query!r} at the level {level} every noise is 0, and "
            "files state a variance that is positive; give 0.02 for next to none"
        )
    return sigma


def _row(product: Product, node: str, name: str, names: Sequence[str], values: Ints, variance: float) -> dict[str, Any]:
    shape = [len(binning.members) for binning in product.histogram.binned(names)]
    axes = dict(zip(product.histogram.names, names, strict=True))
    stated = {"query_shape": shape, "value": values.reshape(-1), "variance": variance}
    return {"geocode": node, "query_name": name} | axes | stated


def _noisy_rows(
    product: Product, node: str, table: Ints, sigma: Mapping[str, float], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """The rows of a geounit with the table `table`, one for each query that has a scale."""
    for query, scale in sigma.items():
        names = product.histogram.named(query)
        answers = histogram_sums(table, product.histogram.binned(names))
        noise = np.asarray(DiscreteGaussian(sigma=scale).draw(rng, answers.shape), dtype=np.int64)
        yield _row(product, node, f"{query}_dpq", names, answers + noise, discrete_variance(scale))


def _exact_rows(product: Product, level: str, node: str, table: Ints, leaves: list[Ints]) -> list[dict[str, Any]]:
    """The constraints of a geounit, which has these leaves."""
    found: list[tuple[str, Ints, str]] = []
    if product.name == "dhc-person":
        found.append(("pl94", histogram_sums(table, product.histogram.binned(product.constraints["pl94"])), "="))
    elif level == "US" or product.name == "pl94-unit":
        found.append(("total", table.sum(keepdims=True), "="))
    if product.name == "pl94-person":
        facilities = np.sum([leaf.sum(axis=(1, 2, 3)) > 0 for leaf in leaves], axis=0).astype(np.int64)
        least, most = facilities.copy(), facilities * _CAPACITY
        least[0], most[0] = 0, len(leaves) * _CAPACITY
        found += [("hhgq_total_lb", least, ">="), ("hhgq_total_ub", most, "<=")]
        found.append(("nurse_nva_0", np.zeros(1, dtype=np.int64), "="))
    names = product.constraints
    return [_row(product, node, f"{name}_con", names[name], own, 0.0) | {"sign": sign} for name, own, sign in found]
