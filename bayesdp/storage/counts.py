"""Which variable of a posterior is the table of counts, and whether it is a continuous relaxation of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp._text import printable

_ROUNDING = 1e-9
"""Sums of real numbers that are exact totals are off by rounding errors, up to this share of them."""


def relaxation_of(tree: xr.DataTree, name: str) -> xr.Dataset | None:
    """The group that declares a variable of a posterior a continuous relaxation of whole numbers; None without such a group."""
    # `bayesdp.sample` writes one group for each table of `bayesdp.ContinuousCounts`: `relaxation`, or `relaxation_{name}` where it
    # is not the first table. `name`: the variable.
    for group, node in tree.children.items():
        if group.startswith("relaxation") and node.attrs.get("variable") == name:
            return node.to_dataset()
    return None


def counts_name(tree: xr.DataTree, dims: tuple[str, ...], asked: str | None = None) -> str:
    """The variable of the group ``posterior`` that holds the table of counts.

    Whole numbers with the dimensions of the table, or real ones that the posterior declares to be a continuous
    relaxation: real numbers alone may be anything, such as the rates behind the counts.

    Parameters
    ----------
    tree : xarray.DataTree
        With the group ``posterior``.
    dims : tuple of str
        Dimensions of the table.
    asked : str, optional
        The variable. By default what the group ``fiber`` says, else ``x``, else the only candidate.


    Examples
    --------
    >>> draws = xr.DataArray([[[3, 4]]], dims=("chain", "draw", "county"))
    >>> tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"people": draws, "rate": draws / 2})})
    >>> counts_name(tree, ("county",))
    'people'
    """
    shaped = {
        str(name): array.dtype.kind
        for name, array in tree["posterior"].data_vars.items()
        if set(array.dims) == {"chain", "draw", *dims}
    }
    found = [name for name, kind in shaped.items() if kind in "iu" or relaxation_of(tree, name) is not None]
    if asked is None:
        stated = str(tree["fiber"].attrs.get("variable", "")) if "fiber" in tree.children else ""
        for name in (stated, "x"):
            if name in found:
                return name
        if len(found) == 1:
            return found[0]
    elif asked in found:
        return asked
    real = [name for name, kind in shaped.items() if kind == "f" and name not in found]
    raise ValueError(
        f"posterior must hold one integer variable with the dimensions {printable(', '.join(dims))}, or one named x, or a table of "
        f"ContinuousCounts that bayesdp.sample declared a continuous relaxation; it has {', '.join(found) or 'none'}"
        + (f", and real numbers without such a declaration in {', '.join(real)}" if real else "")
        + (f"; there is no {asked!r} among them" if asked is not None else "")
    )


def without_rounding_errors(draws: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Draws of a relaxation with answers that are exact, and so constant but for rounding errors, made whole numbers.

    Parameters
    ----------
    draws : float array, shape (draws, answers)

    Examples
    --------
    >>> without_rounding_errors(np.array([[2.5, 7.0], [2.5, 7.0 + 1e-12]])).tolist()
    [[2.5, 7.0], [2.5, 7.0]]
    """
    whole = np.round(draws[0])
    constant = (np.abs(draws - whole) <= _ROUNDING * np.maximum(np.abs(whole), 1.0)).all(axis=0)
    return np.where(constant, whole, draws)
