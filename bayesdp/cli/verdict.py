"""What the command line says of convergence, and with which status it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesdp.cli.errors import NOT_CONVERGED, banner, say

if TYPE_CHECKING:
    import xarray as xr

ADVICE = "Draw more (--draws, --chains), or look at the model."


def status_of(tree: xr.DataTree, advice: str = "") -> int:
    """Exit status of a posterior: 0, or 3 where convergence is not shown, which is then said on standard error."""
    # A banner is for chains that look bad. A run that is too short to tell is one calm line. `advice`: what to do, where the
    # message of the diagnostics was printed already; that message if empty.
    from bayesdp.composition import converged_of

    if converged_of(tree) is not False:
        return 0
    attrs = tree["diagnostics"].attrs
    bad = attrs.get("verdict") != "not judged"
    text = advice or str(attrs.get("message", ""))
    (banner if bad else say)(f"Do not report these results. {text}" if bad else text)
    return NOT_CONVERGED
