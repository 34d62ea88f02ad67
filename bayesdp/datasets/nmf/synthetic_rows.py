"""The rows of synthetic noisy measurement files: what they say of a table that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_real
from bayesdp.datasets.nmf.allocation import sigma_squared
from bayesdp.datasets.nmf.binnings import Binning
from bayesdp.datasets.nmf.products import Product, same_query
from bayesdp.noise import DiscreteGaussian

type Ints = npt.NDArray[np.int64]
type Variance = float | Callable[[str, str], float] | None

_CAPACITY = 99_999
"""An upper limit of a facility of group quarters, or of the households of a block, as the constraints state it."""


def histogram_sums(table: Ints, bins: Iterable[Binning]) -> Ints:
    """A histogram summed by one binning an axis; values that are in no group are left out."""
    for axis, own in enumerate(bins):
        groups = [table.take(members, axis=axis).sum(axis=axis) for members in own.members]
        table = np.stack(groups, axis=axis)
    return table


def measured_rows(
    product: Product,
    level: str,
    node: str,
    table: Ints,
    variance: Variance,
    asked: set[frozenset[str]] | None,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Noisy answers of a geounit."""
    rows = []
    for query in product.queries:
        if asked is not None and same_query(query) not in asked:
            continue
        if level == "US" and query == "total":
            continue  # it is exact
        spread = _variance(variance, product, level, query)
        names = product.histogram.named(query)
        bins = [axis.binning(name) for axis, name in zip(product.histogram.axes, names, strict=True)]
        answers = histogram_sums(table, bins)
        law = DiscreteGaussian(sigma=float(np.sqrt(spread)))
        noise = np.asarray(law.draw(rng, answers.shape), dtype=np.int64)
        stated = float(np.asarray(law.variance((1,))).reshape(-1)[0])
        if np.float32(stated) == 0.0:
            raise ValueError(
                f"variance must leave noise: with sigma**2 = {spread:g} for {query!r} at the level {level} every noise is 0, and "
                "files state a variance that is positive; give 0.02 for next to none"
            )
        rows.append(_record(product, node, f"{query}_dpq", names, answers + noise, stated))
    return rows


def _variance(variance: Variance, product: Product, level: str, query: str) -> float:
    if callable(variance):
        return positive_real(variance(level, query), f"variance({level!r}, {query!r})")
    if variance is not None:
        return positive_real(variance, "variance")
    if product.name != "pl94-person":
        raise ValueError(
            f"variance must be given for {product.name}: the published settings are known here for pl94-person"
        )
    known = sigma_squared(level, query)
    if known is None:
        raise ValueError(f"the production settings measure no {query!r} at the level {level}")
    return float(known)


def _record(
    product: Product,
    node: str,
    name: str,
    bins: tuple[str, ...],
    values: Ints,
    variance: float,
    sign: str | None = None,
) -> dict[str, Any]:
    axes = dict(zip(product.histogram.names, bins, strict=True))
    return {
        "geocode": node, "query_name": name, **axes, "query_shape": list(values.shape), "value": values.reshape(-1),
        "variance": variance, "sign": sign,
    }  # fmt: skip


def constraint_rows(product: Product, level: str, node: str, table: Ints, below: list[Ints]) -> list[dict[str, Any]]:
    """Constraints of a geounit, of which `below` are the leaves."""

    def record(name: str, values: Ints, sign: str) -> dict[str, Any]:
        bins = product.constraints[name]
        shape = [len(axis.binning(own).members) for axis, own in zip(product.histogram.axes, bins, strict=True)]
        return _record(product, node, f"{name}_con", bins, values.reshape(shape), 0.0, sign)

    total = np.asarray([table.sum()])
    if product.name == "pl94-unit":
        return [record("total", total, "=")]
    if product.name == "dhc-person":
        names = product.constraints["pl94"]
        bins = [axis.binning(own) for axis, own in zip(product.histogram.axes, names, strict=True)]
        return [record("pl94", histogram_sums(table, bins), "=")]
    facilities = np.sum([own.sum(axis=(1, 2, 3)) > 0 for own in below], axis=0).astype(np.int64)
    least, most = facilities.copy(), facilities * _CAPACITY
    least[0], most[0] = 0, len(below) * _CAPACITY
    found = [record("total", total, "=")] if level == "US" else []
    return [
        *found,
        record("hhgq_total_lb", least, ">="),
        record("hhgq_total_ub", most, "<="),
        record("nurse_nva_0", np.zeros(1, dtype=np.int64), "="),
    ]
