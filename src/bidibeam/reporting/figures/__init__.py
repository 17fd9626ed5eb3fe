"""The figures of a report: one a file, each a function of plain numbers."""
