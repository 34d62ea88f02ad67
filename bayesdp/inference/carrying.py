"""What a run says of itself in its draws, and draws that are not lost when what follows them fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import xarray as xr


def note_run(tree: xr.DataTree, *, resumed: int, interrupted: bool) -> None:
    """Write how a run went into the attributes of its draws; of one that went through, nothing.

    Parameters
    ----------
    tree : xarray.DataTree
        Is changed.
    resumed : int
        How often it was stopped and went on from its journal: the attribute ``resumed``, if ever.
    interrupted : bool
        Whether Ctrl-C ended it before its last draw: the attribute ``interrupted`` is then 1.

    Examples
    --------
    >>> tree = xr.DataTree()
    >>> note_run(tree, resumed=0, interrupted=True)
    >>> tree.attrs
    {'interrupted': 1}
    """
    if resumed:
        tree.attrs["resumed"] = resumed
    if interrupted:
        tree.attrs["interrupted"] = 1


@contextmanager
def carried(tree: xr.DataTree) -> Iterator[None]:
    """Put the draws into the attribute `draws` of any error, so that they are not lost."""
    try:
        yield
    except Exception as error:
        setattr(error, "draws", tree)  # noqa: B010  # no attribute that a type checker could know
        error.add_note("What was drawn is not lost: it is in the attribute `draws` of this error.")
        raise
