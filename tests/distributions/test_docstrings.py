"""Docstrings of distributions: complete, though what their laws say is written once, and their examples are run."""

from __future__ import annotations

import inspect

import pytest

from bayesdp import noise
from bayesdp.distributions.registry import distribution_doc


def test_a_law_from_outside_gets_a_whole_docstring() -> None:
    class Own(noise.NoiseLaw):
        """Some noise.

        Its description.

        Parameters
        ----------
        rate : float
            Of the noise.
            On two lines.
        shape, size : int
            Both at once.

        References
        ----------
        A paper.
        """

    doc = distribution_doc(Own, "Some numbers.", "Noisy", ["mu", "rate", "shape", "size", "rest"], example=">>> 1\n1")
    assert (
        doc
        == inspect.cleandoc("""Some numbers.

        Its description.

        Parameters
        ----------
        mu : tensor_like of float or int
            Location: what the noise was added to.
        rate : tensor_like of float, positive
            Of the noise.
            On two lines.
        shape, size : int
            Both at once.
        rest

        See Also
        --------
        tests.distributions.test_docstrings.test_a_law_from_outside_gets_a_whole_docstring.<locals>.Own : the same law without PyMC.

        References
        ----------
        A paper.

        Examples
        --------
        >>> 1
        1
        """)
        + "\n"
    )


def test_without_docstrings_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise.Laplace, "__doc__", None)  # as by python -OO
    assert distribution_doc(noise.Laplace, None, "Laplace", ["mu", "b"]).startswith("Parameters\n")
