"""Sixty faults in the package, and whether `make test` sees them: ``python -m tests.mutations [--tree PATH] [NUMBER ...]``.

Each line of ``data/mutations.tsv`` is made in a copy of the tree, and the tests named there are run, as far as they are there;
with ``--tree`` those of another checkout.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutation", "mutations", "place_of"]

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("data") / "mutations.tsv"


@dataclass(frozen=True)
class Mutation:
    """What stands once in the package, what stands there with the fault, and the tests that should see it."""

    tests: tuple[str, ...]
    old: str
    new: str


def mutations() -> list[Mutation]:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [Mutation(tuple(tests.split()), old, new) for tests, old, new in lines]


def place_of(mutation: Mutation, root: Path = ROOT) -> Path:
    """The file in which the text stands; ValueError unless it stands once in the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "bayesdp").rglob("*.py"))}
    found = {path: text.count(mutation.old) for path, text in texts.items() if mutation.old in text}
    if list(found.values()) != [1]:
        raise ValueError(f"{mutation.old!r} should stand once in bayesdp/, and stands in {found or 'no file'}")
    return next(iter(found))


def _copied(tree: Path, to: Path) -> None:
    """What Git tracks in a checkout, as it is there now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=tree, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (tree / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, to / name)


def _fails(tests: tuple[str, ...], root: Path) -> str:
    """The first line that says what failed; empty if all pass."""
    there = [name for name in tests if (root / name).exists()]
    if not there:
        raise ValueError(f"none of {', '.join(tests)} is there")
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, *"-m pytest -n0 -q -x --durations=0 -m".split(), "not slow and not system", *there]
    try:
        ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=1800.0)
    except subprocess.TimeoutExpired:
        return "no end within half an hour"
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"pytest did not run: {(ran.stdout + ran.stderr)[-2000:]}")
    said = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (said or ["something failed"])[0] if ran.returncode else ""


def main() -> int:
    """Print what each mutation came to, and how many were caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("number", type=int, nargs="*", help="lines of the table, from 1 on; all if none is named")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose package and tests are judged")
    given, every = parser.parse_args(), mutations()
    caught = 0
    chosen = given.number or range(1, len(every) + 1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "tree"
        _copied(given.tree.resolve(), root)
        for number in chosen:
            mutation, begun = every[number - 1], time.monotonic()
            path = place_of(mutation, root)
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
            failed = _fails(mutation.tests, root)
            path.write_text(text, encoding="utf-8")
            caught += bool(failed)
            word, took = "caught  " if failed else "SURVIVED", time.monotonic() - begun
            print(f"{number:2d} {word} {took:5.0f} s  {path.relative_to(root)}: {mutation.new}", flush=True)
            print(f"            {failed or ' '.join(mutation.tests)}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
