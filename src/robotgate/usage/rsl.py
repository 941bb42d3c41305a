"""The URLs in an RSL document within a page (RSL 1.0 §4.6.2). Its permissions are not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

RSL_TYPE: Final = "application/rsl+xml"
_NAMESPACE: Final = "https://rslstandard.org/rsl "
_NAMING: Final = {f"{_NAMESPACE}{name}": name for name in ("standard", "custom", "terms")}
"""Elements whose text is a URL: of a shared licence (§3.8), of the publisher's own (§3.9), of terms to read (§3.17)."""
_SERVER: Final = "server"
"""The attribute of a content element that names a licence server (§3.3)."""


class _RefusedError(ValueError):
    """The rest of the document is not read."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document, up to its first error."""

    references: tuple[tuple[str, str], ...]
    """Name of the element or attribute, and the URL as it is written."""
    problem: str | None = None
    """What could not be read."""


class _Reader:
    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self._has_root = False
        self._text: list[str] | None = None
        """Of the element that names a URL and is open."""
        self._parser = parser = expat.ParserCreate("utf-8", _NAMESPACE[-1])
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def read(self, text: str) -> str | None:
        """Read a document. Return what could not be read."""
        try:
            self._parser.Parse(text.strip().encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            return f"not well-formed XML ({error})"
        except _RefusedError as error:
            return str(error)
        return None

    def _refuse_doctype(self, *_: object) -> None:
        # Entities are declared in it, and one may stand for a gigabyte or another file.
        raise _RefusedError("it declares a document type, so it is not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._has_root and name != f"{_NAMESPACE}rsl":
            raise _RefusedError("not an rsl element of https://rslstandard.org/rsl")
        self._has_root = True
        self._text = [] if name in _NAMING else None
        if name == f"{_NAMESPACE}content" and attributes.get(_SERVER):
            self.found.append((_SERVER, attributes[_SERVER]))

    def _end(self, name: str) -> None:
        if self._text is not None and (url := "".join(self._text).strip()):
            self.found.append((_NAMING[name], url))
        self._text = None

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)


def read_rsl(text: str) -> Document:
    """Read a document; any text is accepted."""
    reader = _Reader()
    problem = reader.read(text)
    return Document(tuple(dict.fromkeys(reader.found)), problem)
