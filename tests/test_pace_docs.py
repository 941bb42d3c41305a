"""docs/pace.md and docs/blocks.md have the names of the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Final, TypeAlias

from tests.documents import tables
from tests.test_readme import ROOT

from robotgate import HostView, OriginView, RobotGate

PAGE: Final = "\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("pace.md", "blocks.md")
)
NAME: Final = re.compile(r"`(?P<name>[\w.]+)`")
NOT_PACE: Final = """
    agent contact token session store signer purposes tdmrep allow_private_addresses status_policy dialect max_hosts
    recheck max_bytes clock fetcher
"""
"""Options of the gate that the page has no need to list."""

Row: TypeAlias = dict[str, str]


def rows(*columns: str) -> list[Row]:
    """The rows of every table that has all these columns, by the heads of the columns."""
    return [row for table in tables(PAGE) for row in table if row.keys() >= set(columns)]


def named(column: str) -> list[str]:
    """All names that stand in the cells of one column, in order."""
    return [found["name"] for row in rows(column) for found in NAME.finditer(row[column])]


def test_every_option_of_the_pace_is_told_of() -> None:
    """None is left out, and a new one of the gate is either told of here or no option of the pace."""
    told = set(re.findall(r"`(\w+)", PAGE)) & inspect.signature(RobotGate).parameters.keys()
    assert told >= inspect.signature(RobotGate).parameters.keys() - set(NOT_PACE.split())


def test_fields_of_a_host_are_these() -> None:
    """A table of fields has all of them, in their order."""
    assert named("field of `HostView`") == [field.name for field in dataclasses.fields(HostView)]


def test_fields_of_an_origin_are_these() -> None:
    """Besides those of its host."""
    fields = [field.name for field in dataclasses.fields(OriginView)]
    assert named("further field of `OriginView`") == fields[len(dataclasses.fields(HostView)) :]
