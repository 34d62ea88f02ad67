"""The folder of a design: what it is of, so that a run goes on with its own fits only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymc as pm
import pytensor
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from bayesdp import _strict_json as strict_json
from bayesdp.calibration.designs.candidates import Releases
from bayesdp.measurements import Exact, Measured

__all__ = ["fingerprint", "folder_of"]

_FORMAT = "bayesdp-design-1"
_NAME = "design.json"


def fingerprint(releases: Mapping[str, Sequence[Releases]], models: Mapping[str, pm.Model]) -> str:
    """A hash of all simulated releases, and of the model of each candidate: its log-density as a graph, with its constants."""
    digest = hashlib.sha256()
    for name, listed in releases.items():
        digest.update(name.encode())
        for own in (release for found in listed for release in found):
            digest.update(json.dumps([own.mechanism, own.dims, own.frame.labels], default=str).encode())
            parts: list[Measured | Exact] = [*own.measurements, *own.exact]
            for part in parts:
                digest.update(json.dumps(part.query.describe(), default=str).encode())
                digest.update(part.values.tobytes())
        density = models[name].logp()
        digest.update(str(pytensor.dprint(density, file="str")).encode())
        for variable in ancestors([density]):
            if isinstance(variable, Constant) and hasattr(variable.data, "tobytes"):
                digest.update(variable.data.tobytes())
    return digest.hexdigest()


def folder_of(path: Path, about: Mapping[str, Any]) -> Path:
    """Make the folder of a run, or find it.

    Raises
    ------
    ValueError
        If it is there, and of another run, or of none.
    OSError
        If it cannot be made.
    """
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
    other = [key for key in head if found.get(key) != head[key]]
    if other:
        raise ValueError(
            f"{str(path)!r} is of another run: {', '.join(other)} {'is' if len(other) == 1 else 'are'} not the same; "
            "name another folder to start afresh"
        )
    return path
