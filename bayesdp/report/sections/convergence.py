"""Whether the chains can be trusted, in words."""

from __future__ import annotations

from bayesdp.plots.rank import ranks
from bayesdp.report.context import Context
from bayesdp.report.figures import embedded
from bayesdp.report.html import Html, element, items, joined, paragraph
from bayesdp.report.numbers import plural

__all__ = ["ANCHOR", "TITLE", "banner", "write"]

ANCHOR = "convergence"
TITLE = "Convergence"


def banner(context: Context) -> Html | None:
    """A red banner if the chains have not converged or nobody has looked, a calm one if they are too short to tell; or None."""
    if context.converged:
        return None
    if context.converged is None:
        heading, text = (
            "Convergence was not assessed.",
            "The posterior file has no diagnostics. Do not rely on its numbers yet.",
        )
    elif context.verdict == "not judged":
        heading, text = "Too little to judge convergence.", f"{context.message} Draw more, in two chains or more."
        return element("p", element("strong", heading), text, class_="banner warn")
    else:
        heading = "Convergence is NOT established. Do not report these numbers."
        text = f"{context.message} Draw more, or look at the model."
    return element("p", element("strong", heading), text, class_="banner bad")


def write(context: Context) -> Html:
    """The section."""
    fit = context.fit
    parts = []
    alarm = banner(context)
    if alarm is None:
        parts.append(element("p", element("strong", "The chains agree."), context.message, class_="banner good"))
    else:
        parts.append(alarm)
    told = [f"{plural(fit.chains, 'chain')} of {plural(fit.draws, 'draw')} after tuning."]
    told += _fiber(context) + _divergences(context)
    told.append(
        "Cells that the exact values determine are left out of R-hat and effective sample sizes: they mean nothing there."
    )
    parts.append(items(told))
    picture = ranks(context.tree)
    if picture is None:
        parts.append(
            paragraph("No rank plots: they compare chains, and there is one, or nothing that moves.", class_="note")
        )
    else:
        text = (
            "Rank plots of the quantities with the smallest effective sample sizes: one line a chain. Lines inside the band "
            "(simultaneous, 95%) are chains that agree."
        )
        parts.append(embedded(picture, text))
    return joined(parts)


def _fiber(context: Context) -> list[str]:
    if "fiber" not in context.tree.children:
        return []
    attrs = context.tree["fiber"].attrs
    claim = str(attrs.get("connectivity", "")).strip()
    if not claim:
        return []
    return [f"Whether the moves reach every table that agrees with the exact values: {claim}"]


def _divergences(context: Context) -> list[str]:
    if "sample_stats" not in context.tree.children or "diverging" not in context.tree["sample_stats"].data_vars:
        return []
    found = int(context.tree["sample_stats"].to_dataset()["diverging"].sum())
    if not found:
        return ["No divergent transitions of NUTS."]
    return [
        f"{plural(found, 'divergent transition')} of NUTS: the parameters may be biased where the posterior is narrow."
    ]
