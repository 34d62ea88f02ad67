"""Tables from users' files: CSV in long or wide form, netCDF, files of margins, and CSV files of statistical offices."""

from bayesdp._text import csv_label, label_of_csv
from bayesdp.tables.margins import read_margins, read_noisy_margins
from bayesdp.tables.office import STATUSES, OfficeTable
from bayesdp.tables.reading import read_office_csv, read_table, read_table_totals

__all__ = [
    "STATUSES", "OfficeTable", "csv_label", "label_of_csv", "read_margins", "read_noisy_margins", "read_office_csv", "read_table",
    "read_table_totals",
]  # fmt: skip
