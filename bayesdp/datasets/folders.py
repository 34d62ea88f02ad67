"""What is below a folder that a user names: none of it is passed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def below(folder: Path, root: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    """All files, sorted, and folders that have none that is wanted. Hidden folders, such as of temporary files, are not entered."""
    if not checked(folder, root).is_dir():
        return [folder]
    entries = sorted(folder.iterdir())
    found = [file for own in entries for file in ([own] if is_hidden(own) else below(own, root, wanted))]
    return found if any(map(wanted, found)) else [*found, folder]


def checked(path: Path, root: Path) -> Path:
    """A file or folder, or a link to one within `root`, as it is; ValueError for anything else."""
    if not (path.is_dir() or path.is_file()):
        raise ValueError(
            f"{path} is neither a file nor a folder, nor a link to one: what should be there cannot be read"
        )
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise ValueError(
            f"{path} is a link that leads out of {root}, to {path.resolve()}: give a folder that has both, or a copy"
        )
    if path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve()):
        raise ValueError(f"{path} is a link to a folder that it is in, {path.resolve()}: remove it")
    return path


def is_hidden(path: Path) -> bool:
    """Whether it is put beside the files of a product, and is none of them."""
    return path.name.startswith((".", "_"))
