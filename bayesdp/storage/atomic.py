"""Atomic writes: under its final name a file is either complete or as it was before.

That holds when the disk is full, when the process is killed at any moment, and when several processes write the same file.
What a killed process leaves behind is a hidden file beside the output, ``.NAME.xxxx.tmp``, which nobody reads.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayesdp._interrupts import deferred


def check_output(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Check that a path can be written to, before any long work starts."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(target.parent)!r} does not exist; create it first")
    with suppress(FileNotFoundError):
        kind = target.lstat().st_mode
        if not overwrite:
            raise _exists(target)
        if stat.S_ISLNK(kind):
            message = f"is a link to {str(target.readlink())!r}, and links are not replaced; name the file itself"
            raise FileExistsError(f"{str(target)!r} {message}, or remove the link")
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise FileExistsError(f"{str(target)!r} is no regular file, so it is not replaced")
    return target


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(f"{str(target)!r} exists already; pass overwrite=True (--force) to replace it")


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to; move it to `path` if all went well, remove it if not. Ctrl-C waits until that is done."""
    # If an existing file may not be replaced, and several processes write the same file, one of them does and the others fail: the
    # last step is a hard link, which does not replace anything. On file systems without hard links an empty file takes the name
    # first; a process that is killed in that instant leaves it.
    target = check_output(path, overwrite=overwrite)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; name a file")
    hidden = str(target.with_name(f".{target.name[:40]}."))  # in the same folder, hence on the same file system
    temporary = Path(f"{hidden}{secrets.token_hex(8)}.tmp")
    with deferred():
        try:
            yield temporary
            sync_file(temporary)
            check_output(target, overwrite=overwrite)  # again: something may have appeared in the meantime
            if overwrite:
                os.replace(temporary, target)
            else:
                _take_name(temporary, target)
            _confirm(target)
        # Of the system: it names the file that the user asked for, not a temporary one or none.
        except OSError as error:
            ours = error.filename is None or str(error.filename).startswith(hidden)
            if error.errno is None or not ours:
                raise
            message = f"{error.strerror}; nothing was written, and what was there is unchanged"
            raise OSError(error.errno, message, str(target)) from error
        finally:
            with suppress(OSError):  # the file is there, or another error says why not
                temporary.unlink()


def _take_name(temporary: Path, target: Path) -> None:
    """Give a file its final name; FileExistsError if another process has taken it meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        # A server that links, and whose answer is lost, is asked again and finds the link: ours.
        if not (target.exists() and temporary.samefile(target)):
            raise _exists(target) from None
    except OSError:  # a file system without hard links; if it is another error, the next line has it too
        _take_name_without_links(temporary, target)


def _take_name_without_links(temporary: Path, target: Path) -> None:
    """Take the name with an empty file, which one process alone can do, and replace that one."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise _exists(target) from None
    try:
        os.replace(temporary, target)
    except BaseException:
        os.unlink(target)
        raise


def write_bytes(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview], *, overwrite: bool = False) -> None:
    """Write bytes, piece by piece, to a file, which is there in full, or as it was; who may read and write it stays as it is."""
    with replacing(path, overwrite=overwrite) as temporary:
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None
        made = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # Windows has text files
        file = os.open(temporary, made, 0o666 if mode is None else mode & 0o666)
        try:
            if mode is not None:
                os.chmod(temporary, mode)
            for piece in pieces:
                rest = memoryview(piece)
                while rest:  # a write may take a part of it, of a disk that is about to be full for example
                    rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)


def write_text(path: str | os.PathLike[str], text: str, *, overwrite: bool = False) -> None:
    """Write text in UTF-8 to a file, which is there in full, or as it was; see `replacing`, for the errors too."""
    write_bytes(path, [text.encode()], overwrite=overwrite)


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _confirm(target: Path) -> None:
    """Wait until the new name of a file is on the disk."""
    # Not every system can do that for folders, and a folder may be closed to readers: then nothing is waited for.
    try:
        folder = os.open(target.parent, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            message = f"{error.strerror}; it is written, but the disk has not confirmed that it is"
            raise OSError(error.errno, message, str(target)) from error
    finally:
        os.close(folder)
