"""PipelineDP: the text of a report on how an aggregation was computed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayesdp._validate import shown
from bayesdp.datasets.noise_adapters.columns import checked_columns, columns_json, parameter
from bayesdp.noise import Gaussian, Laplace
from bayesdp.noise.base import NoiseLaw
from bayesdp.queries import Query

_METRICS = ("count", "privacy_id_count")
_STAGE = re.compile(r"^\s*\d+\.\s+Computed (?:DP )?(\w+)\b(.*)$", re.MULTILINE)
_NEXT = re.compile(r"^\s*\d+\.\s", re.MULTILINE)
_MECHANISM = re.compile(r"(Laplace|Gaussian) mechanism:\s+parameter=(\S+)")
_NOTE = (
    "Noise as stated by PipelineDP. It was added to counts after the contributions of each person were limited, as the report says; "
    "the queries here are about the limited table."
)


def noise_json_of_pipelinedp(report: str, columns: Mapping[str, Query]) -> dict[str, Any]:
    """``noise.json`` from a report of PipelineDP.

    Parameters
    ----------
    report : str
        The text of an ``ExplainComputationReport`` (``report.text()``), or of ``DPEngine.explain_computations_report()`` for one
        aggregation.
    columns : mapping of str to Query
        The metric of each published column, which is its name in the output (``"count"`` or ``"privacy_id_count"``), and the
        query that it answers.

    Returns
    -------
    dict
        What a file ``noise.json`` holds, to be written with `json.dump`, or given to `bayesdp.Release.from_csv` as ``noise=``.

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
    named = checked_columns(columns)
    if not isinstance(report, str):
        raise TypeError(f"report must be the text of a report, got {type(report).__name__}")
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
    return columns_json(named, [_law(report, name) for name in named], [_NOTE])


def _law(report: str, metric: str) -> NoiseLaw:
    """The law of one metric by its stage."""
    stages = [found for found in _STAGE.finditer(report) if found.group(1) == metric]
    if len(stages) != 1:
        raise ValueError(
            f"report must have one stage 'Computed DP {metric}', got {len(stages)}; is it of one aggregation?"
        )
    after = _NEXT.search(report, stages[0].end())
    text = report[stages[0].start(2) : after.start() if after else len(report)]
    mechanisms = _MECHANISM.findall(text)
    if len(mechanisms) != 1:
        raise ValueError(
            f"the stage 'Computed DP {metric}' must state one 'Laplace mechanism:  parameter=...', got {len(mechanisms)}; "
            "reports of early versions do not: state the law yourself"
        )
    kind, stated = mechanisms[0]
    try:
        value = float(stated)
    except ValueError:
        raise ValueError(f"the parameter of {metric!r} is no number: {stated!r}") from None
    where = f"the parameter of {metric!r}"
    return Laplace(b=parameter(value, where)) if kind == "Laplace" else Gaussian(sigma=parameter(value, where))
