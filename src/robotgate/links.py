"""Link headers (RFC 8288 §3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Possessive, so that a line takes linear time.
_LINK: Final = re.compile(r'<([^<>]*+)>((?:[^",<]++|"(?:[^"\\]++|\\.)*+")*+)')
_PARAMETER: Final = re.compile(
    r';[ \t]*+([^ \t;,="]++)[ \t]*+=[ \t]*+(?:"((?:[^"\\]++|\\.)*+)"|([^ \t;,"]*+))'
)
_ESCAPED: Final = re.compile(r"\\(.)")


def read_links(line: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The links of one field line: each target as written, and its parameters, with their names in lower case.

    What is no link is left out. Whatever a server wrote, nothing raises.
    """
    for link in _LINK.finditer(line):
        yield (
            link[1].strip(),
            [
                (name.lower(), bare or _ESCAPED.sub(r"\1", quoted))
                for name, quoted, bare in _PARAMETER.findall(link[2])
            ],
        )


def unread_part(line: str) -> str:
    """What is no link in a field line, without the commas between links."""
    return _LINK.sub("", line).strip(" \t,")
