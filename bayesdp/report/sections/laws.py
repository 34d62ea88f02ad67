"""How much the result depends on the noise law, where that is not known."""

from __future__ import annotations

from bayesdp._text import printable
from bayesdp.plots import law_comparison
from bayesdp.report.context import Whole
from bayesdp.report.html import Html, boxed, embedded, joined, paragraph
from bayesdp.report.numbers import decimal, plural, spread
from bayesdp.report.tables import Column, Table, numeric
from bayesdp.summaries import LawComparison

ANCHOR = "laws"
TITLE = "Sensitivity to the noise law"


def applies(whole: Whole) -> bool:
    """Whether laws were compared, or a law is of a kind whose parameters offices often keep secret."""
    return whole.laws is not None or bool(_keyed(whole))


def write(whole: Whole) -> Html:
    """The section."""
    if whole.laws is None:
        return paragraph(
            f"The numbers above hold if {', '.join(_keyed(whole))} is the law. Offices that perturb by cell keys often keep the table "
            "of perturbations secret. If it is guessed, one result is too certain: compare several plausible ones "
            "(bayesdp.compare_laws) and give the comparison to the report (laws=...)."
        )
    compared = whole.laws
    several = plural(len(compared.laws), "law")
    parts = [
        boxed(
            "warn",
            f"The noise law is not known: {several} were compared, and the result is no single number.",
            "The numbers in the other sections are those of one law. The laws below are not weighed against one another, and nothing "
            "is averaged over them.",
        ),
        embedded(
            law_comparison(compared),
            "Posterior mean and interval of each quantity under each noise law; the grey bar holds the intervals of all laws.",
        ),
        *(table.to_html() for table in law_tables(compared)),
    ]
    bad = [printable(name) for name, good in compared.converged.items() if good is False]
    if bad:
        parts.append(
            boxed("warn", "Chains do not agree.", f"Under {', '.join(bad)}: do not compare it before they do.")
        )
    return joined(parts)


def law_tables(compared: LawComparison) -> tuple[Table, Table]:
    """How far the laws are apart for each quantity, and the numbers of each law."""
    apart, rows = compared.spread, compared.table
    names = [_name(*key) for key in apart.index]
    first = Table(
        "How far the laws are apart: lowest and highest posterior mean, their difference, the same in the smallest posterior standard "
        "deviation, and the ends of what holds all intervals, which is no credible interval.",
        [
            Column("Quantity", names, kind="label"),
            numeric("Lowest mean", apart["mean_lowest"], decimal, "mean_lowest"),
            numeric("Highest mean", apart["mean_highest"], decimal, "mean_highest"),
            numeric("Difference", apart["spread"], spread, "spread"),
            numeric("Difference in sd", apart["spread_in_sd"], spread, "spread_in_sd"),
            numeric("Lower end of all", apart["lower"], decimal, "lower"),
            numeric("Upper end of all", apart["upper"], decimal, "upper"),
        ],
        "law-spread.csv",
    )
    second = Table(
        f"Posterior mean, standard deviation and {100 * compared.prob:.10g}% equal-tailed interval of each quantity under each law.",
        [
            Column("Quantity", [_name(part, label) for part, label, _ in rows.index], kind="label"),
            Column("Law", [str(law) for *_, law in rows.index], kind="label"),
            numeric("Mean", rows["mean"], decimal, "mean"),
            numeric("Sd", rows["sd"], spread, "sd"),
            numeric("Lower end", rows["lower"], decimal, "lower"),
            numeric("Upper end", rows["upper"], decimal, "upper"),
        ],
        "laws.csv",
    )
    return first, second


def _name(part: object, label: object) -> str:
    return f"{part}: {label}" if label else str(part)


def _keyed(whole: Whole) -> list[str]:
    """Laws of the releases that give one cell one value, in words."""
    measured = [part for release in whole.releases for part in release.measurements]
    return list(dict.fromkeys(printable(str(part.law)) for part in measured if part.law.same_cell_same_value))
