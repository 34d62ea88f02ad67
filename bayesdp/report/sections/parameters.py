"""The parameters of the model: mean, interval and diagnostics of each number."""

from __future__ import annotations

import numpy as np

from bayesdp.plots.fit import summarise
from bayesdp.report.context import Whole
from bayesdp.report.html import Html
from bayesdp.report.numbers import significant, spread
from bayesdp.report.sections.headline import element_names
from bayesdp.report.tables import Column, Table, numeric

ANCHOR = "parameters"
TITLE = "Parameters of the model"


def applies(whole: Whole) -> bool:
    """Whether the model has any."""
    return bool(whole.parameters)


def write(whole: Whole) -> Html:
    """The section."""
    variables = whole.tree["posterior"].to_dataset().data_vars
    fit, prob = whole.tables[0].fit, whole.tables[0].prob
    drawn = [variables[name].transpose("chain", "draw", ...) for name in whole.parameters]
    names = [
        element for name, draws in zip(whole.parameters, drawn, strict=True) for element in element_names(name, draws)
    ]
    flat = np.concatenate(
        [array.values.reshape(fit.chains * fit.draws, -1).astype(np.float64) for array in drawn], axis=1
    )
    summary, kind = summarise(flat, prob), f"eti{100 * prob:.10g}"
    ends = list(zip(summary.lower.tolist(), summary.upper.tolist(), strict=True))
    columns = [
        Column("Parameter", names, kind="label"),
        numeric("Posterior mean", summary.mean, significant, "mean"),
        numeric("Posterior sd", summary.sd, significant, "sd"),
        Column(
            whole.kind,
            ends,
            lambda pair: f"{significant(pair[0])} to {significant(pair[1])}",
            raw={f"{kind}_lower": summary.lower.tolist(), f"{kind}_upper": summary.upper.tolist()},
        ),
    ]
    if "diagnostics" in whole.tree.children:
        found = whole.tree["diagnostics"].to_dataset()
        for statistic, heading in (("ess_bulk", "Effective draws"), ("rhat", "R-hat")):
            values = [
                found[f"{name}_{statistic}"]
                .transpose(*(d for d in draws.dims if d not in ("chain", "draw")))
                .values.reshape(-1)
                if f"{name}_{statistic}" in found
                else np.full(draws[0, 0].size, np.nan)
                for name, draws in zip(whole.parameters, drawn, strict=True)
            ]
            shown = (lambda v: f"{v:,.0f}" if v == v else "–") if statistic == "ess_bulk" else spread
            columns.append(numeric(heading, np.concatenate(values), shown, statistic))
    caption = f"Each parameter of the model: posterior mean, standard deviation and {whole.kind}, in its own unit."
    return Table(caption, columns, "parameters.csv").to_html()
