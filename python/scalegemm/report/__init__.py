"""A page of plots and tables from the CSV files that scalegemm writes.

    python -m scalegemm.report results/*.csv -o report.html --png plots

Needs matplotlib: pip install scalegemm[report]. See docs/report.md.
"""

from ._files import (
    Ceilings,
    ErrorRow,
    File,
    QualityRow,
    ReportError,
    Timing,
    add_peers,
    read_ceilings,
    read_file,
    read_files,
)
from ._page import page
from ._summary import SummaryRow, summary

__all__ = [
    "Ceilings",
    "ErrorRow",
    "File",
    "QualityRow",
    "ReportError",
    "SummaryRow",
    "Timing",
    "add_peers",
    "page",
    "read_ceilings",
    "read_file",
    "read_files",
    "summary",
]
