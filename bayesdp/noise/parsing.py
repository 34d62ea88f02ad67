"""Noise laws as text: on the command line, and in the words of methods notes."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final

from bayesdp._validate import instance, nearest
from bayesdp.noise.base import NoiseLaw, law_names, made_law, registered_law
from bayesdp.noise.perturbed.cell_key import CellKey
from bayesdp.noise.perturbed.tables import read_ptable

_LAWS: Final = {
    "laplacian": "laplace",
    "double-exponential": "laplace",
    "normal": "gaussian",
    "discrete-laplacian": "discrete-laplace",
    "discrete-normal": "discrete-gaussian",
    "geometric": "discrete-laplace",
    "two-sided-geometric": "discrete-laplace",
    "double-geometric": "discrete-laplace",
    "fixed-random-rounding": "random-rounding",
    "cell-key-method": "cell-key",
    "symmetric-geometric": "discrete-laplace",
}
"""What methods notes call a law, maybe with "mechanism" after it: its name here."""

_PARAMETERS: Final = {
    "eps": "epsilon",
    "ε": "epsilon",
    "ρ": "rho",
    "σ": "sigma",
    "δ": "delta",
    "var": "variance",
    "sd": "standard_deviation",
    "std": "standard_deviation",
    "stdev": "standard_deviation",
}
"""What they call a parameter. ``scale`` is the scale of the law, b or sigma."""

_LOSS: Final = re.compile(r"\b(epsilon|eps|ε|rho|ρ|sensitivity) (?=[-+]?\.?\d)", re.IGNORECASE)
"""Where the sign of equality may be left out, as in "epsilon 0.5 per county"."""


def parse_law(text: str) -> NoiseLaw:
    """Read a law written as its name and parameters, as on the command line and in methods notes.

    Parameters
    ----------
    text : str
        ``name parameter=value ...``; for ``cell-key`` also ``cell-key FILE``, with the file of a perturbation table
        (`bayesdp.noise.read_ptable`). Scales are single numbers here; give arrays in Python. Bounds are written as
        ``bounds=0:1``, with ``-inf`` or ``inf`` where there is none, and a law within another one in parentheses. Common other
        names are known, of laws ("two-sided geometric", "normal") and of parameters ("standard deviation", "variance",
        "scale"); case does not matter, and blanks in a name may be hyphens.

    Examples
    --------
    >>> parse_law("discrete-gaussian sigma=5")
    DiscreteGaussian(sigma=5.0)
    >>> parse_law("two-sided geometric epsilon=0.5 sensitivity=2")
    DiscreteLaplace(b=4.0)
    >>> parse_law("Gaussian standard deviation = 2.5")
    Gaussian(sigma=2.5)
    >>> parse_law("lattice-laplace epsilon=0.25 norm=l2")
    LatticeLaplace(epsilon=0.25, norm='l2')
    >>> parse_law("censored law=(discrete-gaussian sigma=10) below=90")
    Censored(noise=DiscreteGaussian(sigma=10.0), below=90.0, above=inf)
    """
    instance(text, str, "a noise law must be written as text", quoted=True)
    tidy = re.sub(r"\s*=\s*", "=", re.sub(r",(?=\s)", "", text.strip()))
    words = _words(_LOSS.sub(r"\1=", tidy), text)
    if not words:
        raise ValueError(f"a noise law must start with one of {law_names()}, got {text!r}")
    name, rest = _named(words)
    law = registered_law(name)
    if law is CellKey and rest and not any("=" in word for word in rest):
        return CellKey(read_ptable(" ".join(rest)))
    parameters: dict[str, Any] = {}
    name_words: list[str] = []
    for word in rest:
        key, separator, value = word.partition("=")
        name_words.append(key)
        if not separator:
            continue
        if not (key and value):
            raise ValueError(f"parameters of a noise law must be written as name=value, got {word!r} in {text!r}")
        parameter = _parameter(law, name_words)
        name_words = []
        if parameter in parameters:
            raise ValueError(f"parameter {parameter!r} appears twice in {text!r}")
        parameters[parameter] = _parsed(value)
    found: NoiseLaw | None = made_law(name, parameters, law.other_parameters) if parameters or not name_words else None
    if name_words or found is None:
        raise ValueError(
            f"parameters of a noise law must be written as name=value, got {' '.join(name_words)!r} in {text!r}"
        )
    return found


def _words(tidy: str, text: str) -> list[str]:
    """Words between blanks; what stands in parentheses belongs to its word, and there are none within it."""
    words = re.findall(r"(?:[^\s()]|\([^()]*\))+", tidy)
    if "".join(re.sub(r"\([^()]*\)", "", tidy).split()) != re.sub(r"\([^()]*\)", "", "".join(words)):
        raise ValueError(f"parentheses around a law within a law must be closed, with no others inside, got {text!r}")
    return words


def _named(words: list[str]) -> tuple[str, list[str]]:
    """The registered name that the text starts with, as long as possible, and the words after it."""
    first = next((i for i, word in enumerate(words) if "=" in word), len(words))
    for end in range(first, 0, -1):
        name = _plain(words[:end]).removesuffix("-mechanism")
        name = _LAWS.get(name, name)
        if name in law_names().split(", "):
            return name, words[end:]
    unknown = " ".join(words[: max(first, 1)])
    raise ValueError(
        f"unknown noise law {unknown!r}; known laws are {nearest(unknown.replace(' ', '-'), law_names().split(', '))}"
    )


def _parameter(law: type[NoiseLaw], words: list[str]) -> str:
    """What the law calls a parameter."""
    plain = _plain(words)
    if plain == "scale":
        scales = {item.name for item in fields(law)} & {"b", "sigma"}  # type: ignore[arg-type]  # subclasses are dataclasses
        return scales.pop() if scales else "scale"
    return _PARAMETERS.get(plain, plain.replace("-", "_"))


def _plain(words: list[str]) -> str:
    return "-".join(words).lower().replace("_", "-")


def _parsed(value: str) -> Any:
    """A number, a pair of numbers, a law in parentheses, or else a word such as l1: the law says whether it makes sense."""
    if value.startswith("(") and value.endswith(")"):
        return parse_law(value[1:-1])
    try:
        numbers = [float(word) for word in value.split(":")]
    except ValueError:
        return value
    return numbers if len(numbers) > 1 else numbers[0]
