"""Tables from users' files: CSV in long or wide form, netCDF, and files of margins."""

from __future__ import annotations

from bayesdp._text import csv_label, label_of_csv
from bayesdp.tables.margins import read_margins, read_noisy_margins
from bayesdp.tables.reading import read_table

__all__ = ["csv_label", "label_of_csv", "read_margins", "read_noisy_margins", "read_table"]
