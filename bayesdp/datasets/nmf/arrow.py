"""pyarrow, which only readers and writers of parquet files need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def parquet() -> tuple[Any, Any]:
    """The modules ``pyarrow`` and ``pyarrow.parquet``; ImportError that names the extra where they are missing."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as missing:
        raise ImportError(
            "noisy measurement files are parquet files, which need pyarrow: pip install 'bayesdp[census]'"
        ) from missing
