"""Whether the chains can be trusted, in words."""

from __future__ import annotations

from bayesdp.plots.rank import ranks
from bayesdp.report.context import Whole
from bayesdp.report.html import Html, boxed, embedded, items, joined, paragraph
from bayesdp.report.numbers import plural

ANCHOR = "convergence"
TITLE = "Convergence"


def banner(whole: Whole) -> Html | None:
    """A red banner if the chains have not converged or there are no diagnostics, a calm one if they are too short; else None."""
    if whole.converged:
        return None
    if whole.converged is None:
        heading, text = (
            "Convergence was not assessed.",
            "The posterior file has no diagnostics. Do not rely on its numbers yet.",
        )
    elif whole.verdict == "not judged":
        heading, text = "Too little to judge convergence.", f"{whole.message} Draw more, in two chains or more."
        return boxed("warn", heading, text)
    else:
        heading, text = "Do not report these numbers.", f"{whole.message} Draw more, or look at the model."
    return boxed("bad", heading, text)


def write(whole: Whole) -> Html:
    """The section."""
    fit = whole.tables[0].fit
    parts = []
    alarm = banner(whole)
    if alarm is None:
        parts.append(boxed("good", "The chains agree.", whole.message))
    else:
        parts.append(alarm)
    told = [f"{plural(fit.chains, 'chain')} of {plural(fit.draws, 'draw')} after tuning."]
    told += _fiber(whole) + _divergences(whole)
    told += [whole.missed_modes] if whole.missed_modes else []
    told.append(
        "Cells that the exact values determine are left out of R-hat and effective sample sizes: they mean nothing there."
    )
    parts.append(items(told))
    picture = ranks(whole.tree)
    if picture is None:
        parts.append(
            paragraph("No rank plots: they compare chains, and there is one, or nothing that moves.", class_="note")
        )
    else:
        text = (
            "Rank plots of the quantities with the smallest effective sample sizes: one line a chain, the share of its draws below a "
            "rank less what is expected. Chains that agree leave the bands (simultaneous, over everything that moves) in 5% "
            "of posteriors at most; a chain that leaves its band is drawn thick."
        )
        parts.append(embedded(picture, text))
    return joined(parts)


def _fiber(whole: Whole) -> list[str]:
    claims = []
    for context in whole.tables:
        limits = context.fit.limits
        claim = "" if limits is None else str(limits.attrs.get("connectivity", "")).strip()
        if claim:
            claims.append(
                f"Whether the moves reach every table that agrees with the exact values{context.of_table}: {claim}"
            )
    return claims


def _divergences(whole: Whole) -> list[str]:
    if "sample_stats" not in whole.tree.children or "diverging" not in whole.tree["sample_stats"].data_vars:
        return []
    found = int(whole.tree["sample_stats"].to_dataset()["diverging"].sum())
    if not found:
        return ["No divergent transitions of NUTS."]
    return [
        f"{plural(found, 'divergent transition')} of NUTS: the parameters may be biased where the posterior is narrow."
    ]
