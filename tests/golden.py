"""Numbers and words of every law and mechanism: ``python -m tests.golden`` writes them to ``tests/data/golden.json``.

With ``--compare`` it exits with 1 where a bit differs; tests compare numbers to nine digits, as another processor rounds otherwise.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bayesdp import noise
from tests.noise.contract.examples import example_of, variants

sys.path.append(str(Path(__file__).resolve().parents[1] / "docs"))
from pages import examples as mechanism_examples  # isort: skip  # from docs/

__all__ = ["PATH", "differences", "found", "law_golden", "law_names", "mechanism_golden", "mechanism_names", "stored"]

PATH = Path(__file__).with_name("data") / "golden.json"


def _plain(value: Any) -> Any:
    """As JSON has it: arrays as lists, infinities by name."""
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def law_names() -> list[str]:
    return [*noise.law_names().split(", "), *variants()]


def law_golden(name: str) -> dict[str, Any]:
    """What a law of the contract says: parameters, seeded draws and their log-density, moments."""
    example = example_of(name)
    law: Any = example.law
    drawn = law.draw(11, (3,), 6, example.kept, example.location)
    made = {
        "text": str(law),
        "description": law.describe(),
        "draws": drawn,
        "logp": [law.logp(values, example.location, example.kept) for values in drawn],
        "variance": law.variance((3,), example.kept),
        "limits": law.limits,
        "not private": law.not_private,
    }
    if hasattr(law, "cdf"):
        made["cdf"] = law.cdf(np.arange(-2.0, 9.0), 3.0)
    return dict(_plain(made))


def mechanism_names() -> list[str]:
    return sorted(mechanism_examples.instances())


def mechanism_golden(name: str) -> dict[str, Any]:
    """What a mechanism says: its description, its guarantee in numbers and in words."""
    made = mechanism_examples.instances()[name]
    parts = made.mechanisms if hasattr(made, "mechanisms") else (made,)
    guarantees = made.guarantees if hasattr(made, "guarantees") else [own.guarantee for own in parts]
    described = {
        "description": [own.describe() for own in parts],
        "guarantees": [own.to_dict() for own in guarantees],
        "text": [str(own).splitlines() for own in guarantees],
        "noise": [own.noise(np.random.default_rng(11), 2) for own in parts if callable(getattr(own, "noise", None))],
    }
    return dict(_plain(described))


def found() -> dict[str, Any]:
    return {
        "laws": {name: law_golden(name) for name in law_names()},
        "mechanisms": {name: mechanism_golden(name) for name in mechanism_names()},
    }


def stored() -> dict[str, Any]:
    return dict(json.loads(PATH.read_text(encoding="utf-8")))


def differences(now: Any, then: Any, where: str = "", rtol: float = 0.0) -> Iterator[str]:
    """Where two values differ, numbers by more than `rtol` of them."""
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted(now.keys() | then.keys()):
            if key not in now or key not in then:
                yield f"{where}/{key}: only {'now' if key in now else 'before'}"
            else:
                yield from differences(now[key], then[key], f"{where}/{key}", rtol)
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for i, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from differences(one, other, f"{where}/{i}", rtol)
    elif {type(now), type(then)} <= {int, float}:
        if abs(now - then) > rtol * max(abs(now), abs(then)) + rtol:
            yield f"{where}: {now!r} now, {then!r} before"
    elif now != then:
        yield f"{where}: {now!r} now, {then!r} before"


def _main(arguments: list[str]) -> int:
    made = json.loads(json.dumps(found()))
    if "--compare" in arguments:
        different = list(differences(made, stored()))
        print("\n".join(different) or "nothing differs")
        return int(bool(different))
    PATH.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
