"""How far a long run is, and how long it will take: in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["followed"]


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
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )
    with Progress(*columns) as bar:
        task, failed = bar.add_task(words, total=total, completed=done, failed=0), 0
        for record in records:
            failed += "error" in record
            bar.update(task, advance=1, failed=failed)
            yield record
