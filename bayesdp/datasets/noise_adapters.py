"""``noise.json`` from what libraries of differential privacy say of the noise that they added.

Each function takes published metadata, as plain data or text, and the queries that the published columns answer; none needs the
library. What is not mapped exactly is refused with the reason, and what a reader should know beside the law is in ``notes``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bayesdp import _text
from bayesdp._validate import instance, positive_real, shown
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query, SumPart
from bayesdp.storage.noise_json import NOISE_SCHEMA, check_noise_json, described_query, described_table


def _checked_columns(columns: Any) -> dict[str, Query]:
    """Accept a mapping of the names of columns to queries of one table."""
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"columns must map the name of each published column to its query, got {columns!r}")
    if not columns:
        raise ValueError("columns must name at least one published column")
    first = next(iter(columns))
    for name, query in columns.items():
        instance(query, Query, f"columns[{name!r}] must be a query such as Identity(table)")
        if not query.frame.same_cells(columns[first].frame):
            raise ValueError(f"columns[{name!r}] is about another table than {first!r}")
    return dict(columns)


def _parameter(value: Any, where: str) -> float:
    """Accept a scale in metadata: a finite number above zero."""
    if not isinstance(value, bool) and isinstance(value, (int, float)) and value == 0:
        raise ValueError(
            f"{where} is 0: no noise was added, so the column is exact; state it as an Exact part of a release"
        )
    return positive_real(value, where)


def _columns_json(columns: Mapping[str, Query], laws: Sequence[NoiseLaw], note: str) -> dict[str, Any]:
    """``noise.json`` of columns that stand in one CSV file, each with a law of its own."""
    frame = next(iter(columns.values())).frame
    linear = any(not isinstance(part, SumPart) for query in columns.values() for part in query.parts)
    taken = {*columns, *frame.dims, *(name for name, _, _ in frame.groups)}
    if linear and "answer" in taken:
        raise ValueError(
            f"a column or dimension is called 'answer', the column of the names of linear combinations; got {shown(taken)}"
        )
    made = {
        "noise_json": NOISE_SCHEMA,
        **({"data": {"answer_column": "answer"}} if linear else {}),
        "table": described_table(frame, {}),
        "measured": [
            {"column": name, "query": described_query(query), "law": law.describe()}
            for (name, query), law in zip(columns.items(), laws, strict=True)
        ],
        "notes": [note],
    }
    plain: dict[str, Any] = _text.loads(_text.dumps(made, "noise.json"), "noise.json")
    check_noise_json(plain)
    return plain


_INTEGERS = ("i32", "i64")
_REALS = ("f64",)
_COUNTING = ("make_count", "make_count_by", "make_count_by_categories", "make_count_distinct")
_OPENDP = "Noise as stated by OpenDP. It was added to what the transformations before it gave, which the queries here take for counts."


def noise_json_of_opendp(
    measurements: Mapping[str, Mapping[str, Any] | str], columns: Mapping[str, Query]
) -> dict[str, Any]:
    """What a file ``noise.json`` holds, from measurements of OpenDP: for `json.dump`, or `Release.from_csv` as ``noise=``.

    Parameters
    ----------
    measurements : mapping of str to str or mapping
        For each published column the measurement that made it, as ``opendp.mod.serialize(measurement)`` writes it: JSON text, or
        that text read.
    columns : mapping of str to Query
        The same columns with the query that each answers.

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
    named = _checked_columns(columns)
    stated: Any = measurements
    if not isinstance(stated, Mapping) or set(stated) != set(named):
        given = shown(stated) if isinstance(stated, Mapping) else type(stated).__name__
        raise ValueError(f"measurements must have one measurement for each of the columns {shown(named)}, got {given}")
    laws = [_opendp_law(measurements[name], f"measurements[{name!r}]") for name in named]
    return _columns_json(named, laws, _OPENDP)


def _opendp_law(stated: Any, where: str) -> NoiseLaw:
    plain = _text.loads(stated, where) if isinstance(stated, str) else stated
    if isinstance(plain, Mapping) and "distribution" in plain:
        raise NotImplementedError(
            f"{where} is a row of summarize(), which does not say whether the count is signed: noise on unsigned counts stops at "
            "zero. Give the measurement by opendp.mod.serialize, or state the law yourself"
        )
    function, arguments = _call(plain, where)
    if function == "make_chain_mt":
        return _opendp_law(arguments.get("measurement1"), f"{where}.measurement1")
    if function not in ("make_laplace", "make_gaussian", "make_geometric"):
        raise NotImplementedError(
            f"{where}: {function!r} is not mapped; mapped are make_laplace, make_gaussian and make_geometric, alone or after "
            "transformations"
        )
    scale = _parameter(arguments.get("scale"), f"{where}.scale")
    kind = _atom(arguments.get("input_domain"), f"{where}.input_domain")
    integer = kind in _INTEGERS
    if not integer and kind not in _REALS:
        raise NotImplementedError(
            f"{where}: numbers of type {kind!r} are not mapped; mapped are {shown((*_INTEGERS, *_REALS))}. Noise on unsigned or short "
            "integers stops at the ends of the type, and short floats round"
        )
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


_METRICS = ("count", "privacy_id_count")
_STAGE = re.compile(r"^[ \t]*\d+\.\s", re.MULTILINE)
_MECHANISM = re.compile(r"(Laplace|Gaussian) mechanism:\s+parameter=(\S+)")
_PIPELINEDP_NOTE = (
    "Noise as stated by PipelineDP. It was added to counts after the contributions of each person were limited, as the report says; "
    "the queries here are about the limited table."
)


def noise_json_of_pipelinedp(report: str, columns: Mapping[str, Query]) -> dict[str, Any]:
    """What a file ``noise.json`` holds, from a report of PipelineDP: for `json.dump`, or `Release.from_csv` as ``noise=``.

    Parameters
    ----------
    report : str
        The text of an ``ExplainComputationReport`` (``report.text()``), or of ``DPEngine.explain_computations_report()`` for one
        aggregation.
    columns : mapping of str to Query
        The metric of each published column, which is its name in the output (``"count"`` or ``"privacy_id_count"``), and the
        query that it answers.

    Raises
    ------
    TypeError, ValueError
        If it is no such text, has no stage for a column, or states no positive parameter.
    NotImplementedError
        If partitions were selected privately, as then which ones are there depends on the counts, for which there is no law here;
        if the report does not say that they are public; or for another metric.

    Notes
    -----
    In a report, ``Laplace mechanism:  parameter=`` is followed by the scale b and ``Gaussian mechanism:  parameter=`` by the standard
    deviation (``noise_parameter`` and ``describe`` in ``pipeline_dp/dp_computations.py``, stages in
    ``pipeline_dp/report_generator.py`` and ``dp_engine.py``, https://github.com/OpenMined/PipelineDP). The noise is real, also
    that of counts; its grid, which is far finer than its scale, is taken for the line.

    Examples
    --------
    >>> from bayesdp.queries import Identity
    >>> report = '''DPEngine method: aggregate
    ... Computation graph:
    ...  1. Public partition selection: dropped non public partitions
    ...  2. Computed DP count with
    ...     Laplace mechanism:  parameter=12.5  eps=2.0  l1_sensitivity=25.0'''
    >>> made = noise_json_of_pipelinedp(report, {"count": Identity({"day": ["Monday", "Tuesday"]})})
    >>> made["measured"][0]["law"]
    {'law': 'laplace', 'b': 12.5}
    """
    named = _checked_columns(columns)
    instance(report, str, "report must be the text of a report")
    other = [name for name in named if name not in _METRICS]
    if other:
        raise NotImplementedError(
            f"the metrics {shown(other)} are not mapped; mapped are {shown(_METRICS)}, which are noisy sums of counts"
        )
    if re.search(r"private partition selection:", report, re.IGNORECASE):
        raise NotImplementedError(
            "the report says that partitions were selected privately: which rows are there depends on the counts, and no law of "
            "that is known here. Give public_partitions to the aggregation, so that all rows are published"
        )
    if not re.search(r"public partition", report, re.IGNORECASE):
        raise NotImplementedError(
            "the report does not say that the partitions are public ('Public partition selection'), so rows may be missing"
        )
    return _columns_json(named, [_pipelinedp_law(report, name) for name in named], _PIPELINEDP_NOTE)


def _pipelinedp_law(report: str, metric: str) -> NoiseLaw:
    """The law of one metric by its stage."""
    stages = [text for text in _STAGE.split(report)[1:] if re.match(rf"\s*Computed (?:DP )?{metric}\b", text)]
    if len(stages) != 1:
        raise ValueError(
            f"report must have one stage 'Computed DP {metric}', got {len(stages)}; is it of one aggregation?"
        )
    mechanisms = _MECHANISM.findall(stages[0])
    if len(mechanisms) != 1:
        raise ValueError(
            f"the stage 'Computed DP {metric}' must state one 'Laplace mechanism:  parameter=...', got {len(mechanisms)}; "
            "reports of early versions do not: state the law yourself"
        )
    [(kind, stated)] = mechanisms
    where = f"the parameter of {metric!r}"
    try:
        value = float(stated)
    except ValueError:
        raise ValueError(f"{where} is no number: {stated!r}") from None
    return Laplace(b=_parameter(value, where)) if kind == "Laplace" else Gaussian(sigma=_parameter(value, where))


_TUMULT_NOTE = (
    "Noise as stated by Tumult Analytics. It was added to answers after the contributions of each person were limited "
    "(truncation, clamping), where the session did that; the queries here are about the limited table."
)


_TUMULT_LAWS: Mapping[str, Callable[[float], NoiseLaw]] = {
    "GEOMETRIC": DiscreteLaplace,
    "DISCRETE_GAUSSIAN": lambda variance: DiscreteGaussian(sigma=math.sqrt(variance)),
    "LAPLACE": Laplace,
    "GAUSSIAN": lambda variance: Gaussian(sigma=math.sqrt(variance)),
}


def noise_json_of_tumult(
    noise_info: Iterable[Mapping[str, Any]] | Mapping[str, Any], columns: Mapping[str, Query]
) -> dict[str, Any]:
    """What a file ``noise.json`` holds, from noise records of Tumult Analytics: for `json.dump`, or `Release.from_csv` as ``noise=``.

    Parameters
    ----------
    noise_info : iterable of mapping
        One record for each noisy column, in order: ``noise_mechanism``, an entry of Tumult's enumeration or its name, and
        ``noise_parameter``. This is what ``Session._noise_info(query, budget)`` gives.
    columns : mapping of str to Query
        The column of each aggregation in the published file and the query that it answers, in the order of the records. All
        combinations of labels must be published: group by a public ``KeySet``.

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
    named = _checked_columns(columns)
    records = [noise_info] if isinstance(noise_info, Mapping) else list(noise_info)
    if len(records) != len(named):
        raise ValueError(
            f"noise_info has {len(records)} records, and columns has {len(named)}: {shown(named)}; each record is of one column, "
            "in the same order"
        )
    laws = [_tumult_law(record, f"noise_info[{i}]") for i, record in enumerate(records)]
    return _columns_json(named, laws, _TUMULT_NOTE)


def _tumult_law(record: Any, where: str) -> NoiseLaw:
    keys = {"noise_mechanism", "noise_parameter"}
    if not isinstance(record, Mapping) or set(record) != keys:
        raise ValueError(f"{where} must have the keys {shown(sorted(keys))}, got {record!r}")
    stated = record["noise_mechanism"]
    name = str(getattr(stated, "name", stated)).rpartition(".")[2]
    if name in _TUMULT_LAWS:
        return _TUMULT_LAWS[name](_parameter(record["noise_parameter"], f"{where}['noise_parameter']"))
    if name == "EXPONENTIAL":
        raise NotImplementedError(
            f"{where}: EXPONENTIAL is the mechanism of a quantile, which is no sum of counts with noise; leave its column out"
        )
    raise NotImplementedError(f"{where}: the mechanism {name!r} is not mapped; mapped are {', '.join(_TUMULT_LAWS)}")
