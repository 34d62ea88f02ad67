"""Attributes of a posterior and its groups: which there are, of which kind, and that the verdict on convergence fits its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

_VERDICTS = ("converged", "not judged", "not converged")


def _flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


type _Kinds = Mapping[str, tuple[Callable[[Any], bool], str]]

_FLAG, _TEXT, _NUMBER = (_flag, "0 or 1"), (_text, "text"), (_number, "a number")
_VERDICT = (lambda value: value in _VERDICTS, "one of " + ", ".join(map(repr, _VERDICTS)))
_ATTRIBUTES: dict[str, _Kinds] = {
    "diagnostics": {
        "verdict": _VERDICT,
        "converged": _FLAG,
        "message": _TEXT,
        "rhat_limit": _NUMBER,
        "ess_limit": _NUMBER,
        "worst_rhat": _NUMBER,
        "worst_ess": _NUMBER,
        "worst_quantities": _TEXT,
        "draws_needed": _NUMBER,
        **dict.fromkeys(("verdict_counts", "verdict_parameters"), _VERDICT),
        "cells_always_zero": _NUMBER,
        "missed_modes": _TEXT,
        "missed_modes_message": _TEXT,
        **dict.fromkeys(
            (f"missed_modes_{name}" for name in ("tested", "alike", "short", "disagreeing", "rate")), _NUMBER
        ),
    },
    "fiber": {
        "variable": _TEXT,
        "bounds_exact": _FLAG,
        "determined_complete": _FLAG,
        "connectivity": _TEXT,
        "proved": _FLAG,
    },
    "statistics": {"variable": _TEXT},
    "relaxation": {"variable": _TEXT, "kind": _TEXT, "text": _TEXT, "case": _TEXT},
    "guarantee": {"guarantee": _TEXT, "text": _TEXT},
}
"""What the attributes of our own groups are; files of earlier versions may lack some."""

_ROOT: _Kinds = {
    **dict.fromkeys(("bayesdp_version", "pymc_version", "numpy_version", "seed", "command", "prior", "created"), _TEXT),
    "interrupted": _FLAG,
}
"""Of the whole tree, where other programs leave attributes of their own."""


def check_attributes(tree: xr.DataTree) -> None:
    """Check the attributes of a posterior, of which other programs may add some, and of our groups, which have no others."""
    _check_kinds("the posterior", tree.attrs, _ROOT, others=True)
    for name, group in tree.children.items():
        ours = next((kind for kind in _ATTRIBUTES if name == kind or name.startswith(f"{kind}_")), None)
        if ours is not None:
            _check_kinds(f"the group {name!r}", group.attrs, _ATTRIBUTES[ours], others=False)


def converged_of(tree: xr.DataTree) -> bool | None:
    """Whether the diagnostics of a posterior say that the chains converged; None where they say nothing.

    Raises
    ------
    ValueError
        If they say something else than 0 or 1, or contradict their own verdict or their own numbers.

    Examples
    --------
    >>> converged_of(xr.DataTree.from_dict({"diagnostics": xr.Dataset(attrs={"converged": "no"})}))
    Traceback (most recent call last):
        ...
    ValueError: converged of the group 'diagnostics' must be 0 or 1, got 'no'
    """
    attrs = tree["diagnostics"].attrs if "diagnostics" in tree.children else {}
    if "converged" not in attrs:
        return None
    _check_kinds("the group 'diagnostics'", attrs, _ATTRIBUTES["diagnostics"], others=False)
    said = bool(attrs["converged"])
    verdict = attrs.get("verdict", "converged" if said else "")
    if said != (verdict == "converged"):
        raise ValueError(f"diagnostics say converged = {int(said)}, but the verdict {verdict!r}")
    # Comparisons with NaN, where there is no such number, are False.
    for worst, limit, sign in (("worst_rhat", "rhat_limit", 1), ("worst_ess", "ess_limit", -1)):
        if said and worst in attrs and limit in attrs and sign * (float(attrs[worst]) - float(attrs[limit])) > 0:
            raise ValueError(
                f"diagnostics say converged = 1, but {worst} = {attrs[worst]:.6g} is beyond {limit} = {attrs[limit]:.6g}"
            )
    return said


def _check_kinds(where: str, attrs: Mapping[Any, Any], kinds: _Kinds, *, others: bool) -> None:
    for key, value in attrs.items():
        if key not in kinds:
            if others:
                continue
            raise ValueError(f"{where} has the unknown attribute {key!r}; it may have {', '.join(kinds)}")
        valid, valid_values = kinds[key]
        try:
            good = valid(value)
        except ValueError:  # an array has no truth value
            good = False
        if not good:
            value = value.item() if isinstance(value, np.generic) else value
            raise ValueError(f"{key} of {where} must be {valid_values}, got {value!r}")
