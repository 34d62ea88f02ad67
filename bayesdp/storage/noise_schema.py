"""The schema of ``noise.json``: where it is, and what is wrong with a file that does not follow it.

The JSON Schema file ``noise_schema_1.json`` beside this module is what others may validate with. It is checked by fastjsonschema,
which makes a function of it: a file of a megabyte takes half a second, and other libraries take several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from bayesdp import _text
from bayesdp._text import printable
from bayesdp._validate import both_lists, shown

NOISE_SCHEMA = 1
"""Version of the schema of ``noise.json`` that this version of bayesdp writes, the only one so far."""


def noise_json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 7) of ``noise.json``.

    Examples
    --------
    >>> noise_json_schema()["title"]
    'noise.json, version 1'
    """
    text = files("bayesdp.storage").joinpath(f"noise_schema_{NOISE_SCHEMA}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = _text.loads(text, "the schema of noise.json")
    return found


@cache
def _validator() -> Callable[[Any], Any]:
    import fastjsonschema

    made: Callable[[Any], Any] = fastjsonschema.compile(noise_json_schema(), use_default=False)
    return made


def check_noise_json(description: Any) -> None:
    """Check that plain data follow the schema.

    Parameters
    ----------
    description : dict
        What a file ``noise.json`` holds.


    Examples
    --------
    >>> table = {"dimensions": [{"name": "county", "labels": ["Alpha", "Beta"]}]}
    >>> part = {"column": "count", "query": {"kind": "cells"}, "law": {"b": 4}}
    >>> check_noise_json({"noise_json": 1, "table": table, "measured": [part]})
    Traceback (most recent call last):
        ...
    ValueError: $.measured[0].law lacks 'law'
    """
    from fastjsonschema import JsonSchemaValueException

    if not isinstance(description, dict):
        raise ValueError(f"$ must be an object, got {type(description).__name__}")
    version = description.get("noise_json")
    if version is None:
        raise ValueError("$ lacks 'noise_json', the version of the schema: this is no noise.json")
    if isinstance(version, int) and not isinstance(version, bool) and version > NOISE_SCHEMA:
        raise ValueError(
            f"$.noise_json is {version!r}, and this bayesdp reads version {NOISE_SCHEMA} only; upgrade bayesdp to read it"
        )
    if isinstance(version, bool) or version != NOISE_SCHEMA:
        raise ValueError(f"$.noise_json must be {NOISE_SCHEMA}, the version of the schema, got {shown([version])}")
    wrong = ""
    try:
        _validator()(description)
    except JsonSchemaValueException as error:
        wrong = _message(error)
    if wrong:
        raise ValueError(wrong)


def _message(error: Any) -> str:
    """What fastjsonschema found, in the words of this package."""
    place, value, definition = f"${str(error.name)[len('data') :]}", error.value, error.definition or {}
    if error.rule == "additionalProperties":
        return printable(f"{place} has unknown keys: {shown(sorted(set(value) - set(definition['properties'])))}")
    if error.rule == "required":
        return printable(f"{place} lacks {shown(key for key in definition['required'] if key not in value)}")
    if error.rule == "type":
        kinds = definition["type"] if isinstance(definition["type"], list) else [definition["type"]]
        return printable(f"{place} must be of type {' or '.join(kinds)}, got {_kind(value)}")
    if error.rule in ("enum", "const"):
        valid = definition.get("enum", [definition.get("const")])
        return printable(f"{place} must be {both_lists(**{'one of': valid})}, got {_brief(value)}")
    if error.rule == "pattern":
        return printable(f"{place} must look like {definition['pattern']}, got {_brief(value)}")
    said = str(error.message)
    return printable(f"{place}{said[len(str(error.name)) :]}" if said.startswith(str(error.name)) else said)


def _kind(value: Any) -> str:
    """The type of a value in the words of JSON."""
    kinds = ((bool, "boolean"), (dict, "object"), (list, "array"), (str, "string"), ((int, float), "number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def read_noise_json(text: str, what: str) -> dict[str, Any]:
    """Read the text of a ``noise.json`` and check it by the schema; ValueError where it is something else."""
    description = _text.loads(text, what)
    check_noise_json(description)
    found: dict[str, Any] = description
    return found


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Name the place in ``noise.json`` in errors about what stands there."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(printable(f"{place}: {' '.join(str(error).split())}")) from None
