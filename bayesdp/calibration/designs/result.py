"""What a design gives back: widths, coverage and losses of all candidates, as a table, as text and as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from bayesdp._text import printable
from bayesdp._wiring import connected

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 100
_TABLE = (
    "Tried on one given table: these numbers are computed from it, without noise. If it is confidential, they are not protected, "
    "and to publish them, or to choose by them, discloses something about it. Of one table, "
    "intervals need not cover as often as they say."
)
_PRIOR = "Tried on tables drawn from a prior: no confidential table was used."


@dataclass(frozen=True, eq=False)
class Design:
    """Intervals of users' posteriors before a release. Made by `bayesdp.design`.

    Attributes
    ----------
    data : xarray.Dataset
        By candidate, question and probability: ``width``, the mean width of the interval, ``width_error``, its Monte Carlo standard
        error, ``coverage`` with Clopper-Pearson limits at 95% (``coverage_low``, ``coverage_high``). By candidate and question:
        ``bias`` of the posterior mean with its standard error ``bias_error``, ``rmse``, and ``used``, the number of releases
        that these are of. By candidate: ``loss``, ``failed`` fits, fits that did ``not_converged``, and ``certified``, whether
        the noise is drawn exactly, so that the loss stands as it is. All in units of the question.
        Attributes: ``tried_on`` (``"prior"`` or ``"table"``), ``n``, ``seed``, ``loss`` (``"epsilon"``, ``"rho"`` or
        ``"mu"``), ``difference`` in words, ``delta`` (NaN without one).
    errors : mapping from candidate to tuple of str
        What fits failed of, with the number of the release; those are left out of all numbers.

    Examples
    --------
    See `bayesdp.design`.
    """

    data: xr.Dataset
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def candidates(self) -> list[str]:
        """Names of the candidates."""
        return [str(name) for name in self.data["candidate"].values]

    @property
    def questions(self) -> list[str]:
        """Names of the questions; one that has several answers is there with each, as ``by county[Alpha]``."""
        return [str(name) for name in self.data["question"].values]

    @property
    def loss_name(self) -> str:
        """The loss as it is called beside numbers, with its delta."""
        delta = float(self.data.attrs["delta"])
        return str(self.data.attrs["loss"]) + (f" at delta = {delta:g}" if delta > 0.0 else "")

    def to_dataframe(self) -> pd.DataFrame:
        """The table, one row for each candidate, question and probability.

        Returns
        -------
        pandas.DataFrame
        """
        return self.data.to_dataframe(dim_order=["candidate", "question", "probability"]).reset_index()

    def plot(self, *, probability: float | None = None, questions: Sequence[str] | None = None) -> Figure:
        """Draw widths against losses, see `bayesdp.plots.designs`.

        Parameters
        ----------
        probability, questions
            As there.

        Returns
        -------
        matplotlib.figure.Figure
        """
        drawn: Figure = connected("draw a design")(self, probability=probability, questions=questions)
        return drawn

    def statements(self) -> list[str]:
        """What has to be said beside the numbers, as sentences."""
        about = self.data.attrs
        said = [
            _TABLE if about["tried_on"] == "table" else _PRIOR,
            f"Loss: {self.loss_name} between two tables that agree on the invariants of every candidate and differ by this: "
            f"{about['difference']}. Of the pairs that only some candidates protect, and of what exact answers reveal by "
            "themselves, it says nothing.",
        ]
        weak = [name for name, sure in zip(self.candidates, self.data["certified"].values, strict=True) if not sure]
        if weak:
            said.append(f"Noise that is not drawn exactly, so that the loss is not certified: {', '.join(weak)}.")
        bad = [
            f"{name} {failed} failed, {slow} not converged"
            for name, failed, slow in zip(
                self.candidates, self.data["failed"].values, self.data["not_converged"].values, strict=True
            )
            if failed or slow
        ]
        if bad:
            said.append(f"Of {about['n']} fits each: {'; '.join(bad)}. Failed ones are left out, the others are not.")
        fits = about["n"] - self.data["failed"]
        lost = [
            f"{question} of {name} ({int(k)})"
            for name, row in zip(
                self.candidates, (fits - self.data["used"]).transpose("candidate", ...).values, strict=True
            )
            for question, k in zip(self.questions, row, strict=True)
            if k
        ]
        if lost:
            said.append(
                f"No finite answer, in the truth or in a draw, and so left out, which may flatter the rest: {'; '.join(lost)}."
            )
        return [printable(sentence) for sentence in said]

    def __str__(self) -> str:
        shown = self.to_dataframe().sort_values(["question", "loss", "candidate", "probability"], kind="stable")
        listed: Any = shown.itertuples()  # its rows have no types
        rows = [
            {
                "question": printable(row.question),
                "candidate": printable(row.candidate),
                self.data.attrs["loss"]: f"{row.loss:.4g}",
                "interval": f"{100 * row.probability:.10g}%",
                "mean width": f"{row.width:.4g} ± {row.width_error:.2g}",
                "coverage": f"{row.coverage:.3f} [{row.coverage_low:.3f}, {row.coverage_high:.3f}]",
                "bias": f"{row.bias:.2g}",
                "rmse": f"{row.rmse:.3g}",
            }
            for row in listed
        ]
        head = f"Design: {len(self.candidates)} candidates, {len(self.questions)} questions, {self.data.attrs['n']} releases each"
        said = [textwrap.fill(own, _WIDTH, subsequent_indent="  ") for own in self.statements()]
        return "\n".join([head, *said, "", pd.DataFrame(rows).to_string(index=False)])

    def __repr__(self) -> str:
        return f"<Design: {len(self.candidates)} candidates, {len(self.questions)} questions; print it>"
