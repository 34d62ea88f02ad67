"""A methods paragraph to cite, and versions, seed, command and date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import xarray as xr

import bayesdp
from bayesdp._text import printable
from bayesdp.composition import is_streamed
from bayesdp.measurements import SIGNS, Measured, described, held_back
from bayesdp.release import Release
from bayesdp.report.context import Context, Whole, is_simulated
from bayesdp.report.html import Html, element, items, joined, paragraph
from bayesdp.report.reliability import stated
from bayesdp.report.tables import facts, plural

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


def methods(whole: Whole) -> Html:
    """A methods paragraph to cite."""
    return joined(
        [
            element("blockquote", paragraph(" ".join(_sentences(whole)))),
            element("h3", "References"),
            items(_references(whole)),
        ]
    )


def _sentences(whole: Whole) -> list[str]:
    attrs = whole.tree.attrs
    by = f"bayesdp {attrs.get('bayesdp_version', '')}".strip()
    pymc = f" (PyMC {attrs['pymc_version']})" if attrs.get("pymc_version") else ""
    fit = whole.tables[0].fit
    chains = f"{plural(fit.chains, 'chain')} of {plural(fit.draws, 'draw')}"
    sentences = [
        *(sentence for context in whole.tables for sentence in _published(context)),
        *_further(whole),
        _joint(whole),
        f"It was sampled with {by}{pymc}: {chains} after tuning.",
        _sampler(whole),
        _streamed(whole),
        _resumed(attrs),
        *(
            _relaxation(context, context.fit.relaxation)
            for context in whole.tables
            if context.fit.relaxation is not None
        ),
        whole.message,
        _prior(whole),
        f"We report posterior means and {whole.kind}s.",
    ]
    return [sentence if sentence.endswith((".", "]")) else f"{sentence}." for sentence in sentences if sentence]


def _published(context: Context) -> list[str]:
    """Sentences on the releases that a table was inferred from."""
    releases = context.fit.releases
    name = f" {context.fit.name}" if context.several else ""
    if context.of_statistics:
        verb = "was" if context.frame.size == 1 else "were"
        return [
            sentence
            for one in releases
            for sentence in (f"{context.table}{name}, confidential, {verb} inferred from {_made(one)}.", _contents(one))
        ]
    if len(releases) == 1:
        made = _made(releases[0])
        return [
            f"The confidential table of counts{name} ({context.table}) was inferred from {made}.",
            _contents(releases[0]),
        ]
    sentences = [
        f"The confidential table of counts{name} ({context.table}) was inferred from {len(releases)} releases together."
    ]
    for i, release in enumerate(releases):
        sentences += [f"Release {i + 1}{name and f' of{name}'} is {_made(release)}.", _contents(release)]
    return sentences


def _contents(release: Release) -> str:
    noisy = "; ".join(
        f"{measured.name}: {_noisy(measured)}" if measured.name else _noisy(measured)
        for measured in release.measurements
    )
    exact = "; ".join(
        f"{described(part.query)}{_SIGN[part.sign]}{'' if part.assumption is None else f' ({printable(part.assumption)})'}"
        for part in release.exact
    )
    return f"Published with noise: {noisy or 'nothing'}. Published exactly: {exact or 'nothing'}."


def _noisy(measured: Measured) -> str:
    """A measurement with its law, and how many answers are known by a threshold only or not at all."""
    hidden = int(measured.unmeasured.sum())
    missing = [*held_back(measured), *([f"{hidden} of them not published"] if hidden else [])]
    return f"{described(measured.query)}{''.join(f', {words}' for words in missing)}, noise law {measured.law}"


def _made(release: Release) -> str:
    made = "a release with random noise of a published law" if release.measurements else "a release without noise"
    if release.guarantee is not None:
        made = "a differentially private release"
    return f"{made}, simulated for this analysis" if is_simulated(release) else made


def _further(whole: Whole) -> list[str]:
    """Sentences on further likelihoods and potentials, by name, which is all that the file has of them."""
    further = whole.further
    told = []
    if further.likelihoods:
        told.append(
            f"The model has further data, with the likelihoods of its author: {', '.join(further.likelihoods)}."
        )
    if further.potentials:
        told.append(f"It has further terms of the log-density (Potentials): {', '.join(further.potentials)}.")
    if further.replaced:
        told.append(
            f"The numbers of {', '.join(further.replaced)} are not those of any release in the file: they were replaced in the model "
            "[state them]."
        )
    return told


def _joint(whole: Whole) -> str:
    """The joint posterior as a formula with the factors of this model."""
    if all(table.of_statistics for table in whole.tables):
        more = " and with the further data and terms" if whole.further.likelihoods or whole.further.potentials else ""
        return (
            "The joint posterior of the parameters θ is p(θ | y) ∝ p(θ) p(y | s(θ)), with the statistics s as functions of them and "
            f"the stated noise laws as p(y | s){more}."
        )
    theta, further = bool(whole.free_parameters), whole.further
    noisy = any(table.fit.measurements for table in whole.tables)
    exact = [part for table in whole.tables for part in table.fit.exact]
    equal = all(part.sign == "=" for part in exact)
    data = [name for name, there in (("y", noisy), ("t", exact), ("z", further.likelihoods)) if there]
    unknown = "θ, x" if theta else "x"
    left = f"p({unknown} | {', '.join(data)})" if data else f"p({unknown})"
    factors = ["p(θ) p(x | θ)" if theta else "p(x)"]
    factors.append("1{A x = t, x ≥ 0}" if exact and equal else "1{x agrees with t, x ≥ 0}" if exact else "1{x ≥ 0}")
    if noisy:
        factors.append("p(y | x)")
    if further.likelihoods:
        factors.append(f"p(z | {unknown})")
    if further.potentials:
        factors.append(f"exp(v({unknown}))")
    words = ["the stated noise laws as p(y | x)" if noisy else "", "the exact values t as data" if exact else ""]
    words += ["the further data z" if further.likelihoods else "", "the Potentials v" if further.potentials else ""]
    stated = [word for word in words if word]
    listed = " and ".join([", ".join(stated[:-1]), stated[-1]] if len(stated) > 1 else stated)
    what = "the counts x and the parameters θ" if theta else "the counts x"
    tables = f" of the {len(whole.tables)} tables" if len(whole.tables) > 1 else ""
    return (
        f"The joint posterior of {what}{tables} is {left} ∝ {' '.join(factors)}{f', with {listed}' if listed else ''}."
    )


def _resumed(attrs: Mapping[Any, Any]) -> str:
    """A sentence on how often the run was stopped and resumed; its chains are those of an uninterrupted run."""
    times = int(attrs.get("resumed", 0))
    if not times:
        return ""
    often = "once" if times == 1 else f"{times} times"
    return f"The run was stopped and went on {often} from draws and sampler states on disk; each chain is one chain."


def _sampler(whole: Whole) -> str:
    """A sentence on the step methods, as far as the statistics of the sampler show them."""
    stats = set(whole.tree["sample_stats"].data_vars) if "sample_stats" in whole.tree.children else set()
    relaxed = [context for context in whole.tables if context.fit.relaxation is not None]
    if all(context.of_statistics for context in whole.tables):
        return f"The parameters were sampled by {_by(whole, stats)}." if stats else ""
    if len(relaxed) == len(whole.tables):
        together = "Counts and parameters were sampled together" if whole.free_parameters else "The counts were sampled"
        return f"{together} by NUTS, as real numbers, and not rounded."
    names = (
        f" of {' and '.join(context.fit.name for context in whole.tables if context not in relaxed)}" if relaxed else ""
    )
    steps = f"The counts{names} were moved by exact-conditional steps among the tables that agree with the exact values"
    rest = (
        [f"those of {' and '.join(context.fit.name for context in relaxed)} as real numbers, and not rounded,"]
        if relaxed
        else []
    )
    if whole.free_parameters:
        rest.append("the other parameters")
    if "fiber_accepted" in stats and float(whole.tree["sample_stats"]["fiber_accepted"].min()) < _ALL:
        steps += ", accepted or rejected on what else the model says of them"
    if not rest or not stats:
        return f"{steps}."
    return f"{steps}, {' and '.join(rest)} by {_by(whole, stats)}."


def _streamed(whole: Whole) -> str:
    """A sentence on cells whose draws were not kept."""
    if not is_streamed(whole.tree):
        return ""
    return (
        "Draws of cells were not kept: means, standard deviations and quantiles of each cell were gathered while sampling, and "
        "its effective sample size and R-hat are those of means of batches of draws."
    )


def _by(whole: Whole, stats: set[Any]) -> str:
    """The step methods of PyMC that moved the parameters."""
    variables = whole.tree["posterior"].to_dataset().data_vars
    discrete = any(variables[name].dtype.kind in "iu" for name in whole.free_parameters)
    nuts = "diverging" in stats
    others = discrete or bool(stats & _OTHER_STEPS)
    return "NUTS" if nuts and not others else "NUTS and other step methods of PyMC" if nuts else "step methods of PyMC"


_OTHER_STEPS = {"nstep_out", "scaling", "p_jump"}
"""Statistics of PyMC's slice and Metropolis steps."""


def _relaxation(context: Context, relaxed: xr.Dataset) -> str:
    """How the posterior differs from that of whole numbers."""
    return (
        f"This is a continuous relaxation{context.of_table}: x runs over the real tables with A x = t and x ≥ 0, p(x | θ) is "
        f"continued between whole numbers, and volume takes the place of counting. {stated(context, relaxed)}"
    )


def _prior(whole: Whole) -> str:
    """The prior by name, with hyperparameters where a description states them; else each variable with its law."""
    lines = [line.strip() for line in whole.described.text.splitlines() if line.strip()]
    if lines:
        last = f", {lines[-1]}" if len(lines) > 1 and lines[-1].startswith("with ") else ""
        return f"Prior: {lines[0].rstrip(':')}{last} (formulas in the report)."
    tables = {context.fit.name for context in whole.tables}
    known = {*tables, *whole.free_parameters}
    laws = [f"{name} ~ {law}" for name, law in whole.described.lines("~") if name in known]
    laws += whole.described.others  # what ContinuousCounts says of their base
    if not laws or len(laws) > _MOST_LAWS:
        told = "as PyMC prints it in the report" if whole.described.model else "the file does not"
        return f"Prior: [state it; {told}]."
    return f"Prior, as PyMC prints it: {'; '.join(laws)}."


_MOST_LAWS = 8
_ALL = 1.0 - 1e-9


def _references(whole: Whole) -> list[str]:
    supports = {measured.law.support for table in whole.tables for measured in table.fit.measurements}
    found = []
    if "subspace" in supports:
        found.append(_SUBSPACE)
    if "lattice" in supports:
        found.append(_LATTICE)
    return [*found, _RHAT]


def provenance(whole: Whole) -> Html:
    """Versions, seed, command and date."""
    attrs = whole.tree.attrs
    unknown = "not recorded"
    rows = [
        ("Posterior drawn", str(attrs.get("created", unknown))),
        ("with bayesdp", str(attrs.get("bayesdp_version", unknown))),
        ("PyMC, NumPy", f"{attrs.get('pymc_version', unknown)}, {attrs.get('numpy_version', unknown)}"),
        ("Seed of the sampler", str(attrs.get("seed", unknown))),
        ("Command", element("code", whole.tables[0].command) if whole.tables[0].command else unknown),
        ("Mechanism", _mechanism(whole)),
        ("Report written", datetime.now(UTC).isoformat(timespec="seconds")),
        (
            "with",
            f"bayesdp {bayesdp.__version__}, ArviZ {version('arviz')}, Matplotlib {version('matplotlib')}",
        ),
    ]
    note = paragraph(
        "The seed is that of the MCMC sampler. No seed and no state of the noise is stored anywhere.", class_="note"
    )
    described = whole.described
    if described.text and described.model:
        model = element("details", element("summary", "The model as PyMC prints it"), element("pre", described.model))
        return joined([facts(rows), note, model])
    return joined([facts(rows), note])


def _mechanism(whole: Whole) -> Any:
    stated = []
    for context in whole.tables:
        for i, release in enumerate(context.fit.releases):
            number = [f"release {i + 1}"] if len(context.fit.releases) > 1 else []
            named = [context.fit.name] if context.several else []
            which = ", ".join([*named, *number])
            stated.append(f"{which}: {_of_release(release)}" if which else _of_release(release))
    return stated[0] if len(stated) == 1 else items(stated)


def _of_release(release: Release) -> str:
    if release.mechanism is None:
        return "not stated by the release"
    shown = {key: value for key, value in release.mechanism.items() if isinstance(value, str | int | float)}
    return ", ".join(f"{key}: {value}" for key, value in shown.items()) or "stated by the release"
