"""Docstrings of distributions: complete, though what their laws say is written once, and their examples are run."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

from bayesdp import distributions, noise
from bayesdp.distributions.registry import distribution_doc

LAWS = [one for name in noise.__all__ if isinstance(one := getattr(noise, name), type) and "name" in vars(one)]
DISCRETE = [law for law in LAWS if law.family == "bounded" and law.integer]


def sections(text: str) -> dict[str, list[str]]:
    """Lines of each section of a numpydoc docstring."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    lines = inspect.cleandoc(text).split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and following == "-" * len(line):
            title = line
            assert title not in found
            found[title] = []
        elif set(line) != {"-"}:
            found[title].append(line)
    return found


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_parameter_has_an_entry_in_the_order_of_the_signature(law: Any) -> None:
    own = distributions.distribution_of(law)
    found = sections(own.__doc__)
    entries = [line.split(" : ")[0] for line in found["Parameters"] if line and not line.startswith(" ")]
    named = [name for entry in entries for name in entry.split(", ") if not name.startswith("**")]
    kinds = inspect.signature(own.dist).parameters
    assert named == [name for name, one in kinds.items() if one.kind is not one.VAR_KEYWORD]
    if law is not noise.Canonical:
        assert any(f"bayesdp.noise.{law.__name__} : the same law without PyMC" in line for line in found["See Also"])
    assert all(f"bayesdp.distributions.{law.__name__} " not in line for line in found["See Also"])
    assert own.__doc__.split("\n")[0].strip().endswith(".")


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_doctest_finds_an_example_that_makes_the_distribution(law: Any) -> None:
    own = distributions.distribution_of(law)
    [found] = [one for one in doctest.DocTestFinder(recurse=False).find(own, own.__name__) if one.examples]
    assert f"{own.__name__}(" in found.examples[-1].source
    assert inspect.getmodule(own) is not None  # where doctest looks for it
    assert own.__module__.startswith("bayesdp.distributions")


def test_the_discrete_laws_within_bounds_say_what_their_laws_say() -> None:
    assert len(DISCRETE) == 3
    for law in DISCRETE:
        of_law, own = sections(str(law.__doc__)), sections(distributions.distribution_of(law).__doc__)
        assert "\n".join(of_law[""]).partition("\n\n")[2] == "\n".join(own[""]).partition("\n\n")[2]
        assert own.get("References") == of_law.get("References")
        assert "    Scale in counts." in own["Parameters"]
        assert not set(own.get("Notes", [])) & set(of_law.get("Notes", [])) - {""}  # those are about methods of the law


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
