"""CSV files as statistical offices publish them: symbols, footnotes, separators and margins, each only where declared."""

from __future__ import annotations

from bayesdp.tables.office.reading import read_office_csv
from bayesdp.tables.office.table import STATUSES, OfficeTable

__all__ = ["STATUSES", "OfficeTable", "read_office_csv"]
