"""The bench: runs, statistics, tables, reports."""
