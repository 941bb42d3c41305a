"""Patterns that name hosts, and in which order those that name one host come."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robotgate._errors import InvalidURLError, OptionError
from robotgate._urls import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_HOST: Final = "*"
_NO_HOST: Final = re.compile(r"[\x00-\x20\x7f\ud800-\udfff/?#@\\%*:\[\]]")
"""What no host holds, and what would make something else than a host of the text."""
_PORT: Final = re.compile(r"[^:]*:[0-9]*|\[.*\]:[0-9]*")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """Names one host, every host below a domain, or every host."""

    key: str
    """A host as `Origin.host` has it; a domain behind a dot, for the hosts below it; empty for every host.

    So a pattern's key ends the hosts that it names, and what is kept under patterns is found by `keys`.
    """

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Read ``example.org`` (that host alone), ``*.example.org`` (every host below it, not itself) or ``*``.

        Case, international names, a final dot and the spelling of addresses are as in URLs.

        Raises:
            OptionError: it is none of these; the message says what to write.
        """
        if not isinstance(text, str):
            raise OptionError(f"pattern={text!r}: give a str")
        if text == EVERY_HOST:
            return cls("")
        domain = text.removeprefix("*.")
        try:
            host = _read_host(domain)
        except InvalidURLError as error:
            raise OptionError(f"pattern={text!r}: {error.problem}") from error
        if domain == text:
            return cls(host)
        if _is_address(host):
            raise OptionError(f"pattern={text!r}: no host is below an address")
        return cls(f".{host}")

    @property
    def is_wildcard(self) -> bool:
        """Whether it may name several hosts."""
        return not self.key or self.key[0] == "."

    def matches(self, host: str) -> bool:
        """Whether it names a host, given as `Origin.host` has it."""
        return host.endswith(self.key) if self.is_wildcard else host == self.key

    def __str__(self) -> str:
        return f"*{self.key}" if self.is_wildcard else self.key


def keys(key: str) -> Iterator[str]:
    """The keys of all patterns that name a host, or all that another pattern names: most specific first."""
    yield key
    dot = key.find(".", 1)
    while dot > 0:
        yield key[dot:]
        dot = key.find(".", dot + 1)
    if key:
        yield ""


def _read_host(text: str) -> str:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if _is_ipv6(bare):
        return Origin.of(f"http://[{bare}]/").host
    if not text or _NO_HOST.search(text):
        raise InvalidURLError(text, _hint(text))
    return Origin.of(f"http://{text}/").host


def _hint(text: str) -> str:
    if "://" in text:
        return "give the host without its scheme"
    if _PORT.fullmatch(text):
        return "give the host without its port"
    if "/" in text:
        return "give the host without a path"
    if "*" in text:
        return "a wildcard is the whole first label, as in '*.example.org', or all there is, as in '*'"
    return "give a host, as 'example.org', '*.example.org' for those below it, or '*' for all"


def _is_ipv6(text: str) -> bool:
    # A zone means something on one machine only.
    if ":" not in text or "%" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_address(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdecimal()
