"""The folder of a design: what it is of, so that a run goes on with its own fits only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesdp import _strict_json as strict_json
from bayesdp.inference.runs.fingerprint import difference

_FORMAT = "bayesdp-design-1"
_NAME = "design.json"


def folder_of(path: Path, about: Mapping[str, Any]) -> Path:
    """Make the folder of a run, or find it."""
    path.mkdir(exist_ok=True)
    head, file = {"format": _FORMAT, **about}, path / _NAME
    if not file.exists():
        if any(path.iterdir()):
            raise ValueError(f"{str(path)!r} has files and is not of a design: name another folder, or an empty one")
        file.write_text(json.dumps(head), encoding="utf-8")
        return path
    try:
        found: Any = strict_json.loads(file.read_text(encoding="utf-8"), str(file))
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{str(file)!r} is damaged ({error}): name another folder") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"{str(file)!r} is not a file of this kind: name another folder")
    differs = difference(found, head)
    if differs:
        raise ValueError(f"{str(path)!r} is of another run: {differs}; name another folder to start afresh")
    return path
