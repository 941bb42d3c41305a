"""Finds figures in a report by name; what is not there is said to be, with the names that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks._report import Column, Figure, Findings, Report, Row, Table


def group_of(report: Report, name: str) -> Findings:
    """What a group has found.

    Raises:
        LookupError: it is not in the report.
    """
    if name not in report.groups:
        raise LookupError(f"no group {name!r}, but {_names(report.groups)}")
    return report.groups[name]


def table_of(report: Report, name: str) -> Table:
    """A table by group and key: ``crawl.200x50``; or by its place in the group, for keys that are sizes are not the
    same in a quick run: ``crawl.#1``.

    Raises:
        LookupError: it is not in the report.
    """
    group, _, key = name.partition(".")
    tables = group_of(report, group).tables
    for place, table in enumerate(tables, 1):
        if key in {table.key, f"#{place}"}:
            return table
    raise LookupError(f"no table {key!r} in group {group!r}, but {_names(table.key for table in tables)}")


def column_of(table: Table, key: str) -> Column:
    """A column by its key.

    Raises:
        LookupError: the table has no such column.
    """
    for column in table.columns:
        if column.key == key:
            return column
    raise LookupError(
        f"no column {key!r} in table {table.key!r}, but {_names(column.key for column in table.columns)}"
    )


def row_of(table: Table, name: str) -> Row:
    """A row by its name.

    Raises:
        LookupError: the table has no such row.
    """
    for row in table.rows:
        if row.name == name:
            return row
    raise LookupError(f"no row {name!r} in table {table.key!r}, but {_names(row.name for row in table.rows)}")


def figure_of(table: Table, name: str, key: str) -> Figure:
    """The figure where a row and a column meet.

    Raises:
        LookupError: there is no such row or column, or nothing where they meet.
    """
    row, column = row_of(table, name), column_of(table, key)
    if column.key not in row.figures:
        raise LookupError(f"nothing in table {table.key!r} where row {name!r} and column {key!r} meet")
    return row.figures[column.key]


def _names(those: Iterable[str]) -> str:
    return ", ".join(map(repr, those)) or "none"
