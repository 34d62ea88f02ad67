"""What the command line says of convergence, and with which status it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesdp.cli.errors import NOT_CONVERGED, banner, say

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["status_of"]


def status_of(tree: xr.DataTree, advice: str = "") -> int:
    """Exit status of a posterior: 0, or 3 where convergence is not shown, which is then said on standard error.

    A banner is for chains that look bad. A run that is too short to tell is one calm line.

    Parameters
    ----------
    tree : xarray.DataTree
    advice : str
        What to do about bad chains; the message of the diagnostics by default.
    """
    from bayesdp.composition import converged_of

    if converged_of(tree) is not False:
        return 0
    attrs = tree["diagnostics"].attrs
    message = str(attrs.get("message", ""))
    if attrs.get("verdict") == "not judged":
        say(message if not advice else "Convergence is not shown: draw more (--draws), with two chains or more.")
    else:
        banner(f"NOT CONVERGED. {advice}" if advice else f"NOT CONVERGED: {message}")
    return NOT_CONVERGED
