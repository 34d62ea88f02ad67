"""Tables from users' files: CSV in long or wide form, netCDF, and files of margins."""

from __future__ import annotations

from bayesdp.tables.margins import read_margins, read_noisy_margins
from bayesdp.tables.reading import read_table

__all__ = ["read_margins", "read_noisy_margins", "read_table"]
