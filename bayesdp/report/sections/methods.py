"""A methods paragraph to cite."""

from __future__ import annotations

import xarray as xr

from bayesdp.measurements import SIGNS, described
from bayesdp.report.context import Context
from bayesdp.report.html import Html, element, items, joined, paragraph
from bayesdp.report.numbers import plural
from bayesdp.report.sections.errors import stated

__all__ = ["ANCHOR", "TITLE", "write"]

ANCHOR = "methods"
TITLE = "Methods, to cite"

_SUBSPACE = (
    "Gao, J., Gong, R. and Yu, F.-Y. (2022). Subspace Differential Privacy. Proceedings of the AAAI Conference on Artificial "
    "Intelligence 36(4), 3986–3995. doi:10.1609/aaai.v36i4.20315"
)
_LATTICE = (
    "Dharangutte, P., Gao, J., Gong, R. and Yu, F.-Y. (2023). Integer Subspace Differential Privacy. Proceedings of the AAAI "
    "Conference on Artificial Intelligence 37. arXiv:2212.00936"
)
_RHAT = (
    "Vehtari, A., Gelman, A., Simpson, D., Carpenter, B. and Bürkner, P.-C. (2021). Rank-normalization, folding, and "
    "localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2), 667–718."
)
_SIGN = dict(zip(SIGNS, ("", ", as lower bounds", ", as upper bounds"), strict=True))


def write(context: Context) -> Html:
    """The section."""
    return joined(
        [element("blockquote", paragraph(_text(context))), element("h3", "References"), items(_references(context))]
    )


def _text(context: Context) -> str:
    release, fit = context.release, context.fit
    noisy = "; ".join(f"{context.measurement_title(own)}, noise law {own.law}" for own in release.measurements)
    exact = "; ".join(f"{described(own.query)}{_SIGN[own.sign]}" for own in release.exact)
    version = context.tree.attrs.get("bayesdp_version", "")
    by = f"bayesdp {version}".strip()
    pymc = context.tree.attrs.get("pymc_version")
    relaxed = fit.relaxation
    nuts = "sample_stats" in context.tree.children and "diverging" in context.tree["sample_stats"].data_vars
    steps = "The counts were moved by exact-conditional steps among the tables that agree with the exact values"
    sampler = f"{steps}, the other parameters by NUTS." if nuts else f"{steps}."
    if relaxed is not None:
        sampler = "Counts and parameters were sampled together by NUTS, as real numbers, and not rounded."
    chains = f"{plural(fit.chains, 'chain')} of {plural(fit.draws, 'draw')}"
    sentences = [
        f"The confidential table of counts ({context.table}) was inferred from {_kind(context)}."
        f" Published with noise: {noisy or 'nothing'}. Published exactly: {exact or 'nothing'}.",
        "The joint posterior of the counts x and the parameters θ, p(θ, x | y, t) ∝ p(θ) p(x | θ) 1{A x = t, x ≥ 0} p(y | x), "
        "with the stated noise law as p(y | x) and the exact values t as data, was sampled with "
        f"{by}{f' (PyMC {pymc})' if pymc else ''}: {chains} after tuning. {sampler}",
        "" if relaxed is None else _relaxation(context, relaxed),
        context.message,
        f"Prior: {_prior(context.prior)}" if context.prior else "Prior: [state it; the file does not].",
        f"We report posterior means and {context.kind}s.",
    ]
    return " ".join(sentence if sentence.endswith((".", "]")) else f"{sentence}." for sentence in sentences if sentence)


def _relaxation(context: Context, relaxed: xr.Dataset) -> str:
    """How the posterior differs from that of whole numbers."""
    return (
        "This is a continuous relaxation: x runs over the real tables with A x = t and x ≥ 0, p(x | θ) is continued between "
        f"whole numbers, and volume takes the place of counting. {stated(context, relaxed)}"
    )


def _prior(text: str) -> str:
    """The first line of a description, which names the prior, and the last if it states hyperparameters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    stated = f", {lines[-1]}" if len(lines) > 1 and lines[-1].startswith("with ") else ""
    return f"{lines[0].rstrip(':')}{stated} (formulas in the report)"


def _kind(context: Context) -> str:
    guarantee = context.release.guarantee
    if guarantee is None:
        made = "a release with random noise of a published law"
    else:
        made = "a differentially private release"
    return f"{made}, simulated for this analysis" if context.simulated else made


def _references(context: Context) -> list[str]:
    supports = {own.law.support for own in context.release.measurements}
    found = []
    if "subspace" in supports:
        found.append(_SUBSPACE)
    if "lattice" in supports:
        found.append(_LATTICE)
    return [*found, _RHAT]
