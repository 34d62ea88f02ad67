"""Tumult Analytics: records of the noise of each aggregation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from bayesdp._validate import shown
from bayesdp.datasets.noise_adapters.columns import checked_columns, columns_json, parameter
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query

_NOTE = (
    "Noise as stated by Tumult Analytics. It was added to answers after the contributions of each person were limited "
    "(truncation, clamping), where the session did that; the queries here are about the limited table."
)


def noise_json_of_tumult(
    noise_info: Iterable[Mapping[str, Any]] | Mapping[str, Any], columns: Mapping[str, Query]
) -> dict[str, Any]:
    """``noise.json`` from the noise records of Tumult Analytics.

    Parameters
    ----------
    noise_info : iterable of mapping
        One record for each noisy column, in order: ``noise_mechanism``, an entry of Tumult's enumeration or its name, and
        ``noise_parameter``. This is what ``Session._noise_info(query, budget)`` gives.
    columns : mapping of str to Query
        The column of each aggregation in the published file and the query that it answers, in the order of the records. All
        combinations of labels must be published: group by a public ``KeySet``.

    Returns
    -------
    dict
        What a file ``noise.json`` holds, to be written with `json.dump`, or given to `bayesdp.Release.from_csv` as ``noise=``.

    Raises
    ------
    TypeError, ValueError
        If something is no such record, a parameter is no positive number, or the numbers of records and columns differ.
    NotImplementedError
        If a mechanism is not mapped: EXPONENTIAL chooses among quantiles, and adds no noise to a count.

    Notes
    -----
    The records and their parameters are in ``tmlt.analytics._noise_info`` and ``tmlt.core.measurements.noise_mechanisms`` (
    https://github.com/opendp/tumult-analytics, https://github.com/opendp/tumult-core):

    =================  ====================  ==========================================================
    noise_mechanism    noise_parameter       law
    =================  ====================  ==========================================================
    GEOMETRIC          alpha                 integers, mass proportional to ``exp(-abs(k) / alpha)``
    DISCRETE_GAUSSIAN  sigma squared         integers, mass proportional to ``exp(-k**2 / (2 sigma**2))``
    LAPLACE            b                     density ``exp(-abs(z) / b) / (2 b)``
    GAUSSIAN           sigma squared         density proportional to ``exp(-z**2 / (2 sigma**2))``
    =================  ====================  ==========================================================

    Examples
    --------
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta"]})
    >>> records = [{"noise_mechanism": "DISCRETE_GAUSSIAN", "noise_parameter": 25}]
    >>> noise_json_of_tumult(records, {"count": county})["measured"][0]["law"]
    {'law': 'discrete-gaussian', 'sigma': 5.0}
    """
    named = checked_columns(columns)
    records = [noise_info] if isinstance(noise_info, Mapping) else list(noise_info)
    if len(records) != len(named):
        raise ValueError(
            f"noise_info has {len(records)} records, and columns has {len(named)}: {shown(named)}; each record is of one column, "
            "in the same order"
        )
    return columns_json(named, [_law(own, f"noise_info[{i}]") for i, own in enumerate(records)], [_NOTE])


def _law(record: Any, where: str) -> NoiseLaw:
    keys = {"noise_mechanism", "noise_parameter"}
    if not isinstance(record, Mapping) or set(record) != keys:
        raise ValueError(f"{where} must have the keys {shown(sorted(keys))}, got {record!r}")
    stated = record["noise_mechanism"]
    name = str(getattr(stated, "name", stated)).rpartition(".")[2]
    value, place = record["noise_parameter"], f"{where}['noise_parameter']"
    if name == "GEOMETRIC":
        return DiscreteLaplace(b=parameter(value, place))
    if name == "DISCRETE_GAUSSIAN":
        return DiscreteGaussian(sigma=math.sqrt(parameter(value, place)))
    if name == "LAPLACE":
        return Laplace(b=parameter(value, place))
    if name == "GAUSSIAN":
        return Gaussian(sigma=math.sqrt(parameter(value, place)))
    if name == "EXPONENTIAL":
        raise NotImplementedError(
            f"{where}: EXPONENTIAL is the mechanism of a quantile, which is no sum of counts with noise; leave its column out"
        )
    raise NotImplementedError(
        f"{where}: the mechanism {name!r} is not mapped; mapped are GEOMETRIC, DISCRETE_GAUSSIAN, LAPLACE and GAUSSIAN"
    )
