"""Files that did harm once, or were taken for what they are not: the first cases of every run."""

import json
from collections import namedtuple

from tests.storage.stated import at

_DIGITS = "9" * 401  # more than a float can hold, and fewer than Python refuses to read


Known = namedtuple("Known", "name target specimen change")
"""A valid file, who reads it, and a function that makes something wrong with it."""


def _digits(*place):
    """A field of ``noise.json`` that is a number of 401 digits."""

    def run(path):
        source = path / "DATA.noise.json"
        known = json.loads(source.read_text(encoding="utf-8"))
        at(known, place[:-1])[place[-1]] = "DIGITS"
        source.write_text(json.dumps(known).replace('"DIGITS"', _DIGITS), encoding="utf-8")

    return run


_FIELDS = (
    ("noise_json",), ("table", "dimensions", 0, "labels", 0), ("measured", 0, "column"), ("measured", 0, "query", "kind"),
    ("measured", 0, "law", "epsilon"), ("measured", 0, "invariants"), ("exact", 0, "sign"), ("mechanism", "epsilon"),
    ("guarantee", "parameters", "epsilon"), ("simulated",),
)  # fmt: skip

_JOURNALS = {
    "half a first line": lambda lines: [lines[0][:40]],
    "zeros at the end": lambda lines: [*lines[:-1], bytes(500)],
    "a line of zeros at the end": lambda lines: [*lines[:-1], bytes(500), b""],
    "zeros only": lambda lines: [bytes(500)],
    "a line that is a list": lambda lines: [*lines[:3], b"[1]", *lines[3:]],
    "a line that is an integer": lambda lines: [*lines[:3], b"1", *lines[3:]],
    "a first line that is an integer": lambda lines: [b"1", *lines[1:]],
    "no number": lambda lines: [lines[0], b'{"ranks": {}}', *lines[2:]],
    "no ranks": lambda lines: [lines[0], b'{"number": 0}', *lines[2:]],
    "an error that is a number": lambda lines: [lines[0], b'{"number": 0, "error": 3}', *lines[2:]],
    "a number of 401 digits": lambda lines: [lines[0], b'{"number": ' + _DIGITS.encode() + b"}", *lines[2:]],
    "deep nesting": lambda lines: [*lines[:3], b"[" * 100_000, *lines[3:]],
    "not UTF-8": lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]],
}


def _lines(change):
    def run(path):
        path.write_bytes(b"\n".join(change(path.read_bytes().split(b"\n"))))

    return run


KNOWN = (
    *(Known(name, "journal of sbc", "journal.jsonl", _lines(change)) for name, change in _JOURNALS.items()),
    *(Known(f"401 digits at {own}", "release, columns", "lattice_columns", _digits(*own)) for own in _FIELDS),
)
