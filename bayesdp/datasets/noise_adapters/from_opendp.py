"""OpenDP: measurements as the library writes them as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesdp import _text
from bayesdp._validate import shown
from bayesdp.datasets.noise_adapters.columns import checked_columns, columns_json, parameter
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query

_INTEGERS = ("i32", "i64")
_REALS = ("f64",)
_COUNTING = ("make_count", "make_count_by", "make_count_by_categories", "make_count_distinct")
_NOTE = "Noise as stated by OpenDP. It was added to what the transformations before it gave, which the queries here take for counts."


def noise_json_of_opendp(
    measurements: Mapping[str, Mapping[str, Any] | str], columns: Mapping[str, Query]
) -> dict[str, Any]:
    """``noise.json`` from measurements of OpenDP.

    Parameters
    ----------
    measurements : mapping of str to str or mapping
        For each published column the measurement that made it, as ``opendp.mod.serialize(measurement)`` writes it: JSON text, or
        that text read.
    columns : mapping of str to Query
        The same columns with the query that each answers.

    Returns
    -------
    dict
        What a file ``noise.json`` holds, to be written with `json.dump`, or given to `bayesdp.Release.from_csv` as ``noise=``.

    Raises
    ------
    TypeError, ValueError
        If something is no such measurement, or columns differ.
    NotImplementedError
        If a measurement is not mapped exactly; the reason is said. Among these are unsigned and short integers and geometric noise
        within ``bounds``, where noisy counts stop at an end; multiples of ``2**k``; thresholds; post-processing; and the tables
        of ``summarize()`` of OpenDP's Polars interface, which do not say whether counts were signed.

    Notes
    -----
    Of ``make_laplace`` and ``make_geometric`` the scale is b (``scale == standard_deviation / sqrt(2)``), of ``make_gaussian`` the
    standard deviation. On domains of integers the noise is the discrete law of that scale; on domains of floats ``make_laplace``
    and ``make_gaussian`` add noise on the finest grid that floats have, which is taken for the continuous law.
    See https://docs.rs/opendp/0.16.0/opendp/measurements/fn.make_laplace.html,
    https://docs.rs/opendp/0.16.0/opendp/measurements/fn.make_gaussian.html and
    https://docs.rs/opendp/0.16.0/opendp/measurements/fn.make_geometric.html.

    Examples
    --------
    >>> from bayesdp.queries import Identity
    >>> county = Identity({"county": ["Alpha", "Beta"]})
    >>> atoms = {"__function__": "atom_domain", "__module__": "domains", "__kwargs__": {"T": "i32"}}
    >>> domain = {"__function__": "vector_domain", "__module__": "domains", "__kwargs__": {"atom_domain": atoms}}
    >>> laplace = {
    ...     "__function__": "make_laplace",
    ...     "__module__": "measurements",
    ...     "__kwargs__": {"input_domain": domain, "scale": 4.0, "k": None},
    ... }
    >>> noise_json_of_opendp({"count": laplace}, {"count": county})["measured"][0]["law"]
    {'law': 'discrete-laplace', 'b': 4.0}
    """
    named = checked_columns(columns)
    given_measurements: Any = measurements
    if not isinstance(given_measurements, Mapping) or set(measurements) != set(named):
        given = shown(measurements) if isinstance(given_measurements, Mapping) else type(given_measurements).__name__
        raise ValueError(f"measurements must have one measurement for each of the columns {shown(named)}, got {given}")
    return columns_json(named, [_law(measurements[name], f"measurements[{name!r}]") for name in named], [_NOTE])


def _law(stated: Any, where: str) -> NoiseLaw:
    plain = _text.loads(stated, where) if isinstance(stated, str) else stated
    if isinstance(plain, Mapping) and "distribution" in plain:
        raise NotImplementedError(
            f"{where} is a row of summarize(), which does not say whether the count is signed: noise on unsigned counts stops at "
            "zero. Give the measurement by opendp.mod.serialize, or state the law yourself"
        )
    function, arguments = _call(plain, where)
    if function == "make_chain_mt":
        return _law(arguments.get("measurement1"), f"{where}.measurement1")
    if function not in ("make_laplace", "make_gaussian", "make_geometric"):
        raise NotImplementedError(
            f"{where}: {function!r} is not mapped; mapped are make_laplace, make_gaussian and make_geometric, alone or after "
            "transformations"
        )
    scale = parameter(arguments.get("scale"), f"{where}.scale")
    integer = _is_integer(_atom(arguments.get("input_domain"), f"{where}.input_domain"), where)
    if arguments.get("bounds") is not None:
        raise NotImplementedError(
            f"{where}: with bounds noisy counts stop at them, which is another law; state it yourself"
        )
    if arguments.get("k") is not None:
        raise NotImplementedError(f"{where}: with k the noise is a multiple of 2**k, for which there is no law here")
    if function == "make_gaussian":
        return DiscreteGaussian(sigma=scale) if integer else Gaussian(sigma=scale)
    if function == "make_geometric" and not integer:
        raise ValueError(f"{where}: make_geometric is about integers, and its domain is not")
    return DiscreteLaplace(b=scale) if integer else Laplace(b=scale)


def _call(plain: Any, where: str) -> tuple[str, Mapping[str, Any]]:
    """The name and the arguments of a constructor of OpenDP."""
    if not isinstance(plain, Mapping) or not isinstance(plain.get("__function__"), str):
        raise ValueError(f"{where} is nothing that opendp.mod.serialize writes: '__function__' is missing")
    arguments = plain.get("__kwargs__", {})
    if not isinstance(arguments, Mapping):
        raise ValueError(f"{where}.__kwargs__ must be an object, got {type(arguments).__name__}")
    return plain["__function__"], arguments


def _atom(domain: Any, where: str) -> str:
    """The type of the numbers of a domain."""
    if domain is None:
        raise NotImplementedError(
            f"{where} is missing, as of the partial constructors then_laplace and so on; without it integers and floats are the same. "
            "Serialize the measurement itself"
        )
    function, arguments = _call(domain, where)
    if function == "vector_domain":
        return _atom(arguments.get("atom_domain"), f"{where}.atom_domain")
    if function == "transformation_output_domain":
        counting, of_counting = _call(arguments.get("this"), f"{where}.this")
        if counting not in _COUNTING:
            raise NotImplementedError(
                f"{where}: the output of {counting!r} is not mapped; mapped are {shown(_COUNTING, 9)}"
            )
        kind = of_counting.get("TO", of_counting.get("TV") if counting == "make_count_by" else None)
    elif function == "atom_domain":
        kind = arguments.get("T")
    else:
        raise NotImplementedError(f"{where}: the domain {function!r} is not mapped")
    if not isinstance(kind, str):
        raise ValueError(f"{where} does not name the type of its numbers, got {kind!r}")
    return kind


def _is_integer(kind: str, where: str) -> bool:
    if kind in _INTEGERS:
        return True
    if kind in _REALS:
        return False
    raise NotImplementedError(
        f"{where}: numbers of type {kind!r} are not mapped; mapped are {shown((*_INTEGERS, *_REALS))}. Noise on unsigned or short "
        "integers stops at the ends of the type, and short floats round"
    )
