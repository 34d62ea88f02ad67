"""Atomic writes: under its final name a file is either complete or as it was before."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayesdp._interrupts import uninterrupted

__all__ = ["check_output", "replacing", "replacing_folder"]


def check_output(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Check that a path can be written to, before any long work starts.

    Raises
    ------
    FileNotFoundError
        If the folder that it should go into does not exist.
    FileExistsError
        If something is there already and `overwrite` is False.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(target.parent)!r} does not exist; create it first")
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{str(target)!r} exists already; pass overwrite=True (--force) to replace it")
    return target


def _sibling(target: Path) -> Path:
    """A name in the same folder, hence on the same file system, that nobody else has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


@uninterrupted
@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to; move it to `path` if all went well, remove it if not.

    Ctrl-C waits until that is done, and is raised then.

    Parameters
    ----------
    path : path
        Where the file shall be.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    FileNotFoundError, FileExistsError
        See `check_output`.
    IsADirectoryError
        If the path is a folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("complete")
    ...     (Path(folder) / "a.txt").read_text()
    'complete'
    """
    target = check_output(path, overwrite=overwrite)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; name a file")
    temporary = _sibling(target)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        check_output(target, overwrite=overwrite)  # again: it may have appeared in the meantime
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@uninterrupted
@contextmanager
def replacing_folder(path: str | os.PathLike[str], *, overwrite: bool = False, marker: str) -> Iterator[Path]:
    """Give a temporary folder to write into; move it to `path` if all went well, remove it if not; Ctrl-C waits for it.

    Parameters
    ----------
    path : path
        Where the folder shall be.
    overwrite : bool
        Whether an existing folder may be replaced. Only a folder that holds the file `marker` is, and no
        other kind of thing: nobody's files are deleted by a slip of the pen.
    marker : str
        Name of a file that tells a folder of ours.

    Raises
    ------
    FileNotFoundError, FileExistsError
        See `check_output`; also if the folder to replace lacks the marker or holds folders.
    """
    target = check_output(path, overwrite=overwrite)
    if os.path.lexists(target) and not (
        target.is_dir()
        and not target.is_symlink()
        and (target / marker).is_file()
        and all(entry.suffix in {".csv", ".json"} and entry.is_file() for entry in target.iterdir())
    ):
        raise FileExistsError(f"{str(target)!r} is not a folder with a release ({marker}), so it is not replaced")
    temporary, old = _sibling(target), _sibling(target)
    try:
        temporary.mkdir()
        yield temporary
        if os.path.lexists(check_output(target, overwrite=overwrite)):
            _exchange(temporary, target, old)
        else:
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exchange(new: Path, target: Path, old: Path) -> None:
    """Put a new folder in the place of another one; a folder with content cannot be replaced in one step."""
    os.replace(target, old)
    try:
        os.replace(new, target)
    except BaseException:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)
