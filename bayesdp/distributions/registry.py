"""Which PyMC distribution a noise law has: filled by what makes the distributions, asked by what puts them into models.

Docstrings of the PyMC distributions, made from those of their laws: what both say is written once.

A distribution's own docstring is numpydoc as usual, and may leave out what the law says: the description after the summary,
parameters, references. What it does say stands.

The observed variable of a measurement: noise of a law around what was asked of the counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import singledispatch
from inspect import cleandoc
from typing import Any

from bayesdp._wiring import named
from bayesdp.invariants import Invariants
from bayesdp.noise.base import NoiseLaw

_DISTRIBUTIONS: dict[type[NoiseLaw], Any] = {}


def register_distribution(law_type: type[NoiseLaw], distribution: Any) -> None:
    """Make a PyMC distribution that of a noise law, so that `bayesdp.observe` finds it.

    Parameters
    ----------
    law_type : type
        A `NoiseLaw`; a later distribution takes the place of an earlier one.
    distribution : type
        A PyMC distribution; called with a name, ``mu``, the parameters of the law by their names
        (`NoiseLaw.model_parameters`), for noise that is not independent ``invariants``, and ``observed`` and ``dims``.
        Where the Op of its random variable has ``law_type`` too, the posterior kernel asks the law for its form.
    """
    _DISTRIBUTIONS[law_type] = distribution


def distribution_of(law_type: type[NoiseLaw]) -> Any:
    """The PyMC distribution of a noise law.

    Parameters
    ----------
    law_type : type
        A `bayesdp.noise.NoiseLaw`.

    Returns
    -------
    type
        A subclass of `pymc.Distribution`.

    Raises
    ------
    NotImplementedError
        If none is registered.

    Examples
    --------
    >>> from bayesdp import distributions, noise
    >>> distribution_of(noise.DiscreteLaplace) is distributions.DiscreteLaplace
    True
    """
    named("distribution", law_type.name, {})  # which registers those of papers
    if law_type not in _DISTRIBUTIONS:
        raise NotImplementedError(
            f"no PyMC distribution is registered for the noise law {law_type.name!r}, so that a model cannot have it: "
            "bayesdp.distributions.register_distribution does that"
        )
    return _DISTRIBUTIONS[law_type]


_HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)

_OF_THE_DISTRIBUTION = {
    "mu": "mu : tensor_like of float or int\n    Location: what the noise was added to.",
    "invariants": "invariants : Invariants\n    What the noise does not change.",
}
"""Parameters that a distribution has and its law has not."""


def distribution_doc(
    law: type[NoiseLaw],
    own: str | None,
    name: str,
    parameters: Sequence[str],
    *,
    given: Mapping[str, str] | None = None,
    example: str = "",
    scale_shape: str = "",
) -> str:
    """Complete the docstring of a distribution."""
    # `own` is what is written at the distribution. `parameters`: names of its parameters, in order; the first after `mu` is a
    # positive scale. `given`: entries of parameters that are neither written at the distribution nor to be those of the law.
    # `example`: what stands under *Examples* if nothing is written there. `scale_shape`: added to the type of the scale. Sections
    # are in the order of numpydoc. *Raises* and *Notes* of the law are left out: they are about its constructor and its methods.
    said, of_law = _sections(own), _sections(law.__doc__)
    summary, _, description = said[""].partition("\n\n")
    of_summary, _, of_description = of_law[""].partition("\n\n")
    written, entries = _entries(said.get("Parameters", "")), _entries(of_law.get("Parameters", ""))
    scale = parameters[1] if len(parameters) > 1 else ""
    entries[scale] = "\n".join(
        [f"{scale} : tensor_like of float, positive{scale_shape}", *entries.get(scale, "").split("\n")[1:]]
    )
    known = entries | _OF_THE_DISTRIBUTION | dict(given or {}) | written
    found = {
        "Parameters": "\n".join(dict.fromkeys(known.get(one, one) for one in parameters)),
        "Raises": said.get("Raises", ""),
        "See Also": said.get("See Also") or _see_also(law, name, of_law.get("See Also", "")),
        "References": said.get("References") or of_law.get("References", ""),
        "Examples": said.get("Examples") or example,
    }
    head = f"{summary or of_summary}\n\n{description or of_description}".strip()
    parts = [head, *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in found.items() if text)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _sections(doc: str | None) -> dict[str, str]:
    """The text of each section by its heading; what stands before all of them under the empty one."""
    first, *rest = _HEADING.split(cleandoc(doc or ""))
    return {"": first.strip(), **{title: text.strip("\n") for title, text in zip(rest[::2], rest[1::2], strict=True)}}


def _entries(section: str) -> dict[str, str]:
    """The entries of a section *Parameters* by name; one of several parameters stands under the name of each."""
    found = {}
    for entry in re.split(r"\n(?=\S)", section):
        for name in entry.split(" : ")[0].split(", "):
            found[name] = entry
    return found


def _see_also(law: type[NoiseLaw], name: str, of_law: str) -> str:
    """The law, and what the law refers to but for the distribution itself."""
    inside = law.__module__.startswith("bayesdp.noise.")
    others = [entry for entry in of_law.split("\n") if entry and not entry.startswith(f"bayesdp.distributions.{name} ")]
    place = "bayesdp.noise" if inside else law.__module__
    return "\n".join([f"{place}.{law.__qualname__} : the same law without PyMC.", *others])


@singledispatch
def add_likelihood(
    law: NoiseLaw, name: str, mu: Any, parameters: Mapping[str, Any], *, invariants: Invariants | None, **data: Any
) -> None:
    """Add the observed variable of one measurement to the current model; laws with more than one way register theirs.

    Parameters
    ----------
    law : NoiseLaw
    name : str
    mu : tensor variable
        Answers that the noise was added to.
    parameters : mapping
        Those of the law (`NoiseLaw.model_parameters`), of the shape of the answers that were published.
    invariants : Invariants or None
        What the noise leaves as it is, in terms of the answers; None for independent noise.
    **data
        ``observed``, the noisy answers, and ``dims``.

    Raises
    ------
    NotImplementedError
        If no PyMC distribution is known for the law.
    """
    kept = {} if invariants is None else {"invariants": invariants}
    distribution_of(type(law))(name, mu=mu, **parameters, **kept, **data)
