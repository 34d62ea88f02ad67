"""How far a long run is, and how long it will take: in a terminal and in a notebook."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bayesdp._terminals import dispensable_progress


def followed(
    records: Iterable[dict[str, Any]], *, total: int, done: int, words: str, show: bool
) -> Iterator[dict[str, Any]]:
    """Pass records on, and show how many have come, how many of them failed, and the time left.

    Parameters
    ----------
    records : iterable of dict
        With an ``error`` where something failed.
    total, done : int
        Records in all, and those of an earlier run.
    words : str
        What is counted.
    show : bool
        Whether to show anything.

    Examples
    --------
    >>> list(followed([{"number": 0}], total=1, done=0, words="fits", show=False))
    [{'number': 0}]
    """
    if not show:
        yield from records
        return
    if Console().is_jupyter:  # rich's bar needs a package of widgets there, and shows nothing without it
        yield from _in_a_notebook(records, total, done, words)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with dispensable_progress(), Progress(*columns) as bar:
        task, failed = bar.add_task(words, total=total, completed=done, failed=0), 0
        for record in records:
            failed += "error" in record
            bar.update(task, advance=1, failed=failed)
            yield record


def _in_a_notebook(records: Iterable[dict[str, Any]], total: int, done: int, words: str) -> Iterator[dict[str, Any]]:
    """The same in a line of text that a notebook replaces as records come."""
    from IPython.display import display

    start, failed = time.monotonic(), 0
    first = {"text/plain": f"{words} {done}/{total}"}
    handle = display(first, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython states no types
    for come, record in enumerate(records, 1):
        failed += "error" in record
        passed = time.monotonic() - start
        left = passed / come * (total - done - come)
        spans = [timedelta(seconds=round(seconds)) for seconds in (passed, left)]
        line = f"{words} {done + come}/{total}, {spans[0]} passed, about {spans[1]} left, {failed} failed"
        handle.update({"text/plain": line}, raw=True)
        yield record
