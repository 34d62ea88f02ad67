"""The odds ratio of a 2 x 2 table whose margins are exact: its posterior, and the test of the release beside it."""

from __future__ import annotations

import math

from bayesdp.report.context import Context
from bayesdp.report.html import Html, joined, paragraph
from bayesdp.report.tables import Column, Table, numeric
from bayesdp.significance import posterior_odds_ratio
from bayesdp.significance.corners import is_two_by_two, noisy_corner, pvalue_limits
from bayesdp.significance.posterior import Interval, PosteriorOddsRatio

ANCHOR = "odds"
TITLE = "Odds ratio"


def applies(context: Context) -> bool:
    """Whether the only release is of a 2 x 2 table with exact margins, none of them 0, and the draws are whole numbers."""
    if (
        len(context.fit.releases) > 1
        or not is_two_by_two(context.fit.release)
        or context.fit.counts.dtype.kind not in "iu"  # nor of means, where no draws were kept
    ):
        return False
    table = context.fit.counts[0, 0].values
    return bool(table.sum(axis=0).all() and table.sum(axis=1).all())


def write(context: Context) -> Html:
    """The section."""
    posterior = context.tree["posterior"].to_dataset()
    both = two_sided(context)
    above = posterior_odds_ratio(posterior, context.fit.name, level=context.prob, alternative="greater")
    below = posterior_odds_ratio(posterior, context.fit.name, level=context.prob, alternative="less")
    words = (
        f"The odds ratio is x11 x22 / (x12 x21), with x11 at {both.cell}; it is 1 if rows and columns are independent."
    )
    parts = [paragraph(words), _intervals(context, both).to_html()]
    if both.probability is not None:
        parts.append(
            paragraph(
                f"Posterior probability that the odds ratio of the population is above 1: {both.probability:.3g}."
            )
        )
    return joined([*parts, *_pvalues(context, [above, below, both])])


def two_sided(context: Context) -> PosteriorOddsRatio:
    """The posterior of the odds ratio with its two-sided test."""
    posterior = context.tree["posterior"].to_dataset()
    return posterior_odds_ratio(posterior, context.fit.name, level=context.prob, alternative="two-sided")


def _intervals(context: Context, posterior: PosteriorOddsRatio) -> Table:
    rows: list[tuple[str, Interval]] = [("the confidential table", posterior.table)]
    if posterior.population is not None:
        rows.append(("the population", posterior.population))
    columns = [Column("Odds ratio of", [name for name, _ in rows], kind="label")]
    for heading, raw in (("Median", "median"), ("Lower", "low"), ("Upper", "high")):
        columns.append(numeric(heading, [getattr(found, raw) for _, found in rows], shown, raw))
    return Table(f"Posterior of the odds ratio: median and {context.kind}.", columns, context.file("odds-ratio.csv"))


def _pvalues(context: Context, posteriors: list[PosteriorOddsRatio]) -> list[Html]:
    """p-values of an odds ratio of 1 for each alternative."""
    names = [posterior.alternative for posterior in posteriors]
    columns = [
        Column("Alternative to 1", names, kind="label"),
        Column("Posterior predictive p", [posterior.predictive_pvalue for posterior in posteriors], _pvalue),
    ]
    try:
        corner = noisy_corner(context.fit.release)
    except (ValueError, NotImplementedError) as reason:
        told = paragraph(f"There is no p-value from the release itself: {reason}.")
        return [Table("p-values of independence.", columns, context.file("odds-ratio-p.csv")).to_html(), told]
    limits = [pvalue_limits(corner, name, 1.0) for name in names]
    if corner.noise.integer:
        columns += [
            Column("p from the release, least", [low for low, _ in limits], _pvalue),
            Column("p from the release, largest", [high for _, high in limits], _pvalue),
        ]
        why = (
            "The noise is integer, and the p-value from the release depends on one further draw, which this page does not make: "
            "a page that is written twice must not show two p-values. Its limits are given; bayesdp test draws once and keeps it."
        )
    else:
        columns.append(Column("p from the release", [low for low, _ in limits], _pvalue))
        why = ""
    best = (
        "uniformly most powerful unbiased" if corner.noise.canonical else "of exact size, though not the most powerful"
    )
    told = paragraph(
        f"The p-values from the release use the noisy corner and the exact margins, not the prior. For one-sided "
        f"alternatives the test is {best} under Semi-DP (f: {corner.noise.tradeoff}); the two-sided p-value is twice the "
        f"smaller one. The posterior predictive p-value averages Fisher's exact test over the posterior of the table; it is "
        f"no uniform number under independence. {why}"
    )
    return [Table("p-values of independence.", columns, context.file("odds-ratio-p.csv")).to_html(), told]


def shown(value: float) -> str:
    """An odds ratio to three digits."""
    return "∞" if math.isinf(value) else f"{value:,.3g}"


def _pvalue(value: float) -> str:
    return f"{value:.3g}"
