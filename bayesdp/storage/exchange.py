"""Folders that appear in one step, and replace folders that hold a release and nothing else.

A folder is written under another name and gets its final one in a single step. A folder that holds something cannot be
replaced in one step: the old one is first moved to ``NAME.previous-xxxx``, and deleted when the new one is in its place. A process
that is killed in between leaves the old one there, complete; `previous_of` finds it, and reader and writer say where it is.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayesdp._interrupts import uninterrupted
from bayesdp._validate import shown
from bayesdp.storage.atomic import check_output, confirm, naming, sibling, sync_file, sync_folder

type _Stamps = dict[str, tuple[int, int, int]]
"""Name -> inode, length and time of the last change."""


def previous_of(path: str | os.PathLike[str]) -> list[Path]:
    """Folders that were moved aside to make room for `path`, and are there still, in order of their names.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     (Path(folder) / "release.previous-0123456789abcdef").mkdir()
    ...     [path.name for path in previous_of(Path(folder) / "release")]
    ['release.previous-0123456789abcdef']
    """
    target = Path(path)
    form = re.compile(re.escape(target.name) + r"\.previous-[0-9a-f]{16}")
    try:
        return sorted(entry for entry in target.parent.iterdir() if form.fullmatch(entry.name))
    except OSError:
        return []


def told_of_previous(target: Path) -> str:
    """The end of a message that a folder is not there: where the one is that was moved aside last, if one was."""
    left = [] if os.path.lexists(target) else previous_of(target)
    return (
        f"; a process was killed while it was replaced, and what was there is in {shown(map(str, left))}"
        if left
        else ""
    )


@uninterrupted
@contextmanager
def replacing_folder(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    marker: str,
    parts: Callable[[Path], Collection[str]] | None = None,
) -> Iterator[Path]:
    """Give a temporary folder to write into; move it to `path` if all went well, remove it if not.

    Parameters
    ----------
    path : path
        Where the folder shall be.
    overwrite : bool
        Whether an existing folder may be replaced. Only a folder that holds a release and nothing else is.
    marker : str
        Name of the file that a folder with a release has.
    parts : callable, optional
        Gives the names of all files of the release in a folder, the marker among them, and raises ValueError if it holds
        none. By default the marker alone. A folder that holds anything else is not replaced, and one in which a file
        was changed or added while it was being replaced is kept beside the new one, with a warning that says where.


    Warns
    -----
    UserWarning
        If a folder that was replaced earlier is there still, as after a process that was killed.
    """
    target = check_output(path, overwrite=overwrite)
    _steady_stamps(target, marker, parts)
    temporary = sibling(target)
    try:
        with naming(target):
            temporary.mkdir()
            yield temporary
            for entry in temporary.iterdir():
                sync_file(entry)
            sync_folder(temporary)
            check_output(target, overwrite=overwrite)  # again: something may have appeared in the meantime
            moved = _take_name(temporary, target, marker, parts, overwrite=overwrite)
        confirm(target)
        for old, stamps in moved:
            _remove(old, stamps)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    left = previous_of(target)
    if left:
        warnings.warn(
            f"what was in {str(target)!r} before is kept in {shown(map(str, left))}: a process was killed while it replaced "
            "it, or files were changed meanwhile; remove it if nobody needs it",
            stacklevel=4,
        )


def _take_name(
    temporary: Path, target: Path, marker: str, parts: Callable[[Path], Collection[str]] | None, *, overwrite: bool
) -> list[tuple[Path, _Stamps]]:
    """Give a folder its final name; folders that had it are moved aside, and returned with the stamps of their files."""
    moved: list[tuple[Path, _Stamps]] = []
    try:
        while True:
            try:
                # This fails if anything is there but an empty folder, which loses nothing: of several processes one succeeds.
                os.rename(temporary, target)
                return moved
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            check_output(target, overwrite=overwrite)
            stamps = _steady_stamps(target, marker, parts)
            if stamps is not None:
                old = target.with_name(f"{target.name}.previous-{secrets.token_hex(8)}")
                with suppress(FileNotFoundError):  # another process has just moved it aside
                    os.rename(target, old)
                    moved.append((old, stamps))
    except BaseException:
        if moved:
            with suppress(OSError):  # somebody else has taken the name meanwhile; ours can be found
                os.rename(moved[-1][0], target)
        raise


def _steady_stamps(folder: Path, marker: str, parts: Callable[[Path], Collection[str]] | None) -> _Stamps | None:
    """The stamps of the files in a folder (`_stamps`), or None where there is no folder."""
    # A folder that another process is just replacing seems to hold no release for an instant: it is looked at three times.
    for last in (False, False, True):
        try:
            return _stamps(folder, marker, parts)
        except FileNotFoundError:
            pass
        except FileExistsError:
            if last and os.path.lexists(folder):
                raise
        if not os.path.lexists(folder):
            return None
    return None


def _stamps(folder: Path, marker: str, parts: Callable[[Path], Collection[str]] | None) -> _Stamps:
    """Inode, length and time of change of each file in a folder that holds a release; FileExistsError for other folders."""
    message = f"{str(folder)!r} is not a folder with a release ({marker}), so it is not replaced"
    if folder.is_symlink() or not folder.is_dir() or not (folder / marker).is_file():
        raise FileExistsError(message)
    try:
        known = {marker} if parts is None else set(parts(folder))
    except ValueError as error:
        raise FileExistsError(f"{message}: {error}") from None
    entries = list(os.scandir(folder))
    others = sorted(
        entry.name for entry in entries if entry.name not in known or not entry.is_file(follow_symlinks=False)
    )
    if others:
        raise FileExistsError(
            f"{str(folder)!r} holds {shown(others)}, no part of the release in it, so the folder is not replaced; move that "
            "elsewhere, or name another folder"
        )
    return {entry.name: _stamp(entry.stat(follow_symlinks=False)) for entry in entries}


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _remove(old: Path, stamps: _Stamps) -> None:
    """Delete a folder that was replaced, unless something in it is not as it was; what cannot be deleted stays."""
    with suppress(OSError):
        if {entry.name: _stamp(entry.stat(follow_symlinks=False)) for entry in os.scandir(old)} != stamps:
            return
        for name in stamps:
            os.unlink(old / name)
        os.rmdir(old)
