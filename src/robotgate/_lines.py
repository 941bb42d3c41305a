"""The lines of a robots.txt: one grammar, from which `_parse` reads whole files and `_compile` what binds one token.

A file is first brought into one form, `canonical`, in which every line begins with a line feed and the rest of the
grammar is short. Both readers take the names of fields from `FIELDS` and find lines by the expressions below; a
property test holds them to the same answers.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from enum import Enum, auto
from typing import Final

from robotgate._normal import PLAIN

MAX_BYTES: Final = 512_000
"""How much of a file is read; the least that RFC 9309 §2.5 permits. A line that the limit cuts is not read."""
MAX_LINE_BYTES: Final = 16 * 1024
"""A longer line, its comment not counted, is dropped: cut short, an Allow would allow too much."""

_BLANKS: Final = " \t"
_UNDECODABLE: Final = re.compile("[\udc80-\udcff]")
_LINE_TOO_LONG: Final = re.compile(rf"\n[^\n#]{{{MAX_LINE_BYTES + 1},}}+")
_WORDS: Final = re.compile(r"\n[^\n#:]++(?![^\n#])")
_RARE_BLANKS: Final = str.maketrans("\v\f", "  ")


class Field(Enum):
    """What the name before the colon says."""

    USER_AGENT = auto()
    ALLOW = auto()
    DISALLOW = auto()
    SITEMAP = auto()
    CRAWL_DELAY = auto()
    REQUEST_RATE = auto()
    VISIT_TIME = auto()


DEFINED_FIELDS: Final = {
    "user-agent": Field.USER_AGENT,
    "useragent": Field.USER_AGENT,
    "user agent": Field.USER_AGENT,
    "allow": Field.ALLOW,
    "disallow": Field.DISALLOW,
    "dissallow": Field.DISALLOW,
    "dissalow": Field.DISALLOW,
    "disalow": Field.DISALLOW,
    "diasllow": Field.DISALLOW,
    "disallaw": Field.DISALLOW,
}
"""The names RFC 9309 §2.2 defines, with the misspellings that the largest crawler has long obeyed. The colon after
them may be missing if two words make the line."""

FIELDS: Final = DEFINED_FIELDS | {
    "sitemap": Field.SITEMAP,
    "site-map": Field.SITEMAP,
    "site map": Field.SITEMAP,
    "crawl-delay": Field.CRAWL_DELAY,
    "request-rate": Field.REQUEST_RATE,
    "visit-time": Field.VISIT_TIME,
}
"""All names with a meaning, in lower case."""


def canonical(body: bytes) -> str:
    r"""A file in the form that all else here reads: one character for an octet, ``\n`` before and after each line.

    ``\n`` takes the place of CR and CRLF, ``#`` that of NUL, which cuts a line as a comment does, and of a line that is
    too long. What is beyond the limits is gone; lines keep their numbers.
    """
    # One octet more than the limit tells a line that ends just there from one that is cut.
    window = body[: MAX_BYTES + 1]
    if len(window) > MAX_BYTES:
        window = window[: max(window.rfind(b"\n"), window.rfind(b"\r"), 0)]
    marks = 0
    while marks < len(BOM_UTF8) and window[marks : marks + 1] == BOM_UTF8[marks : marks + 1]:
        marks += 1
    text = f"\n{window[marks:].decode('latin-1')}\n"
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "#")
    if "\v" in text or "\f" in text:
        # They part two words as blanks do, but belong to a value after a colon.
        text = _WORDS.sub(lambda match: match[0].translate(_RARE_BLANKS), text)
    return _LINE_TOO_LONG.sub("\n#", text) if len(text) > MAX_LINE_BYTES else text


def text_of(value: str) -> str:
    """A value of a canonical file as text, without surrounding blanks; octets that are not UTF-8 become ``%XX``."""
    value = value.strip(_BLANKS)
    if value.isascii():
        return value
    octets = value.encode("latin-1")
    try:
        return octets.decode()
    except UnicodeDecodeError:
        escaped = octets.decode("utf-8", "surrogateescape")
        return _UNDECODABLE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", escaped)


def field_of(name: str, *, colon: bool) -> Field | None:
    """What a name means; without a colon after it, only a name the standard defines means anything."""
    return (FIELDS if colon else DEFINED_FIELDS).get(name.lower())


def _named(*fields: Field) -> str:
    """An expression for the names of fields, in any case, and for what parts them from the value."""
    names = [name for name, field in FIELDS.items() if field in fields]
    one_word = [name for name in names if name in DEFINED_FIELDS and " " not in name]
    others = [name for name in names if name not in one_word]
    forms = [f"(?:{'|'.join(map(_any_case, one_word))})(?:{_COLON}|{_BEFORE_LAST_WORD})"] if one_word else []
    forms += [f"(?:{'|'.join(map(_any_case, others))}){_COLON}"] if others else []
    return f"(?:{'|'.join(forms)})"


def _any_case(name: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in name)


_COLON: Final = r"[ \t]*+:[ \t]*+"
_BEFORE_LAST_WORD: Final = r"[ \t]++(?=[^ \t\n#:]++[ \t]*+[\n#])"
_BEGIN: Final = r"\n[ \t]*+"
_VALUE: Final = r"([^\n#]*+)"

LINE: Final = re.compile(
    rf"{_BEGIN}(?:([^\n#:]*+):[ \t]*+{_VALUE}|([^ \t\n#]++)[ \t]++([^ \t\n#]++)[ \t]*+(?=[\n#]))"
)
"""A line that says something: name and value; or the two words of a line without a colon."""
AGENT_LINE: Final = re.compile(rf"{_BEGIN}{_named(Field.USER_AGENT)}{_VALUE}")
"""A User-agent line: its value."""
RULE_LINE: Final = re.compile(
    rf"{_BEGIN}(?=([Dd])|[Aa]){_named(Field.ALLOW, Field.DISALLOW)}"
    rf"(?:(?:(/{PLAIN}*+)\**+|([/*](?:{PLAIN}|\*)*+\$?+))[ \t]*+(?=[\n#])|{_VALUE})"
)
"""An Allow or Disallow line: a letter if it is a Disallow; its pattern if that is plain but for asterisks at its end,
which are left out; its pattern if that has other asterisks or a final dollar, and is in the normal form as it stands;
any other pattern."""
PACE_LINE: Final = re.compile(
    rf"{_BEGIN}{_named(Field.CRAWL_DELAY, Field.REQUEST_RATE, Field.VISIT_TIME)}{_VALUE}"
)
"""A Crawl-delay, Request-rate or Visit-time line: its value."""
