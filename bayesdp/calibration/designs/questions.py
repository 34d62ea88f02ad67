"""Questions of a design: queries, or functions of a table of counts such as shares and ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp.calibration.quantities import scalars
from bayesdp.frames import Frame
from bayesdp.queries import Query

type Question = Query | Callable[[xr.DataArray], xr.DataArray]


def checked_questions(questions: Any, frame: Frame) -> dict[str, Question]:
    """Check the argument `questions` of `design`."""
    if not isinstance(questions, Mapping) or not questions:
        raise TypeError(f"questions must be a mapping from names to at least one query or function, got {questions!r}")
    for name, question in questions.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"questions must have names, got {name!r}")
        if isinstance(question, Query):
            if not question.frame.same_cells(frame):
                raise ValueError(
                    f"questions[{name!r}] is a query of another table than the candidates': its dimensions are "
                    f"{', '.join(question.frame.dims)}, theirs {', '.join(frame.dims)}, or their labels differ"
                )
        elif not callable(question):
            raise TypeError(
                f"questions[{name!r}] must be a query or a function of the counts, got {type(question).__name__}"
            )
    return dict(questions)


def answers(questions: Mapping[str, Question], counts: xr.DataArray) -> dict[str, npt.NDArray[np.float64]]:
    """Answer all questions, on one table or on many.

    Parameters
    ----------
    questions : mapping
    counts : xarray.DataArray, dims ``(chain, draw, *table)``

    Returns
    -------
    dict from label to numpy.ndarray, shape (chain, draw)
        A question with several answers has a label for each: ``by county[Alpha]``. Where an answer is not a number, such as the share
        of an empty group, it is NaN or infinite.


    Examples
    --------
    >>> counts = xr.DataArray([[[3, 1]]], dims=("chain", "draw", "county"), coords={"county": ["A", "B"]})
    >>> answers({"share of A": lambda x: x.sel(county="A") / x.sum("county")}, counts)
    {'share of A': array([[0.75]])}
    """
    found: dict[str, npt.NDArray[np.float64]] = {}
    for name, question in questions.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            given: Any = question.apply(counts) if isinstance(question, Query) else question(counts)
        if not isinstance(given, xr.DataArray):
            raise TypeError(f"questions[{name!r}] must give back a DataArray, got {type(given).__name__}")
        lead = ("chain", "draw")
        if any(given.sizes.get(dim) != counts.sizes[dim] for dim in lead):
            raise ValueError(f"questions[{name!r}] must keep the dimensions chain and draw, got {given.dims}")
        for label, values in scalars(name, given.transpose(*lead, ...)):
            if label in found:
                raise ValueError(f"questions give two answers the name {label!r}; give one of them another name")
            found[label] = values
    return found
