"""Translates docstrings, which are written for readers of the source, to reStructuredText for Sphinx.

- A name in single backticks becomes a link where it is documented. Of the others, what begins with a capital letter
  has to be, or the build fails (conf.py names the exceptions); what does not is a parameter, and is shown as code.
- "Args:", "Returns:", "Raises:" and "Raises (on entering the block):" become fields. Several names may share a line,
  and errors may be given in words. Sphinx's own extension, napoleon, supports neither, and takes the text before a
  colon in the docstring of an attribute for its type.
- ``docs/sending.md`` becomes a link to that page.
- `robotgate.gate.RobotGate` is shown by its public name, `robotgate.RobotGate`.
"""

from __future__ import annotations

import importlib
import re
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from sphinx.domains.python import PyXRefRole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

PUBLIC_MODULES: Final = (
    "robotgate.events",
    "robotgate.rules",
    "robotgate.lint",
    "robotgate.sites",
    "robotgate.stores",
    "robotgate.stores.redis",
    "robotgate.sitemaps",
    "robotgate.testing.aioresponses",
    "robotgate.testing",
    "robotgate.integrations.crawlee",
    "robotgate.integrations.httpx",
    "robotgate.integrations.scrapy",
    "robotgate.observe",
    "robotgate.signing",
    "robotgate.dashboard",
    "robotgate.threads",
    "robotgate",
)
HAS_TO_BE_DOCUMENTED: Final = re.compile(r"(?![A-Z_]+$)[A-Z]|robotgate\.")
"""Not constants: only a few of them are public."""
SECTION: Final = re.compile(
    r"(?P<indent> *)(?P<title>Args|Returns|Raises(?: \([^)]+\))?):"
)
PAGE: Final = re.compile(r"\bdocs/(?P<page>[\w-]+)\.md")
TITLES: Final = {"Args": "Parameters"}
NAMED: Final = re.compile(r"(?P<names>[\w.]+(?:, [\w.]+)*): (?P<what>.*)")
MADE_BY_THE_GATE: Final = frozenset(
    f"robotgate.{name}"
    for name in (
        "HostView",
        "OriginView",
        "ReadyTurns",
        "rules.Rules",
        "Turn",
        "Verdict",
    )
)
"""Programs get these from calls, and do not make them."""
NOT_MADE: Final[frozenset[object]] = frozenset({Enum, Protocol})
"""Classes derived from these have a constructor that programs do not call."""
SHOWN_AS: Final = {
    " | ByOption": "",
    "ByOption.BY_OPTION": "...",
    "mappingproxy({})": "{}",
    " | robotgate.client.turns.PageTurn": "",
    " | PageTurn": "",
}
"""Private names in signatures, and what is shown instead."""


def public_names() -> Iterator[tuple[str, str]]:
    """Pairs of a name that something may be called by, and the name it is imported by."""
    for module in map(importlib.import_module, PUBLIC_MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            yield name, f"{module.__name__}.{name}"
            if hasattr(thing, "__qualname__"):
                yield (
                    f"{thing.__module__}.{thing.__qualname__}",
                    f"{module.__name__}.{name}",
                )


PUBLIC_NAMES: Final = dict(public_names())


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.Element
) -> nodes.Element | None:
    """Resolve a type hint that has a private or an imported name; leave names that need no link."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    python = env.domains.python_domain
    owner, _, member = target.rpartition(".")
    if target in PUBLIC_NAMES:
        name = PUBLIC_NAMES[target]
    elif owner in PUBLIC_NAMES:
        name = f"{PUBLIC_NAMES[owner]}.{member}"
    else:
        name = f"robotgate.{target}"
    found = python.resolve_xref(
        env, node["refdoc"], app.builder, "obj", name, node, contents
    )
    if found is None and node.get("may_be_undocumented"):
        return contents
    return found


def with_fields(lines: list[str]) -> Iterator[str]:
    """The lines of a docstring, its sections as fields: each a list, except for the return value."""
    indent, is_list = "", False
    for line in lines:
        head = SECTION.fullmatch(line)
        if head is not None:
            indent, is_list = head["indent"] + " " * 4, head["title"] != "Returns"
            yield f"{head['indent']}:{TITLES.get(head['title'], head['title'])}:"
        elif not is_list or not line.startswith(indent):
            is_list = is_list and not line.strip()
            yield line
        elif line.startswith(f"{indent} "):
            yield f"{indent}  {line[len(indent) :].strip()}"
        else:
            yield f"{indent}* {_item(line.strip())}"


def _item(text: str) -> str:
    found = NAMED.fullmatch(text)
    if found is None:
        return text
    names = ", ".join(f"`{name}`" for name in found["names"].split(", "))
    return f"{names}: {found['what']}"


def shape(
    _app: Sphinx,
    _what: str,
    _name: str,
    _thing: object,
    _options: object,
    lines: list[str],
) -> None:
    """Translate a docstring."""
    lines[:] = with_fields(
        [PAGE.sub(r":doc:`\g<0> </\g<page>>`", line) for line in lines]
    )


def sign(
    _app: Sphinx,
    _what: str,
    name: str,
    thing: object,
    _options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Hide signatures of what only the gate makes, and private names in others."""
    if signature is None:
        return None, returned
    if name in MADE_BY_THE_GATE or (
        isinstance(thing, type) and not NOT_MADE.isdisjoint(thing.__mro__)
    ):
        return "", returned
    for private, shown in SHOWN_AS.items():
        signature = signature.replace(private, shown)
    return signature, returned


class NameRole(PyXRefRole):
    """Text in single backticks."""

    def process_link(
        self,
        env: BuildEnvironment,
        refnode: nodes.Element,
        has_explicit_title: bool,  # noqa: FBT001 - As Sphinx passes it.
        title: str,
        target: str,
    ) -> tuple[str, str]:
        """Require a link only for names that look public."""
        title, target = super().process_link(
            env, refnode, has_explicit_title, title, target
        )
        refnode["refdomain"] = "py"
        refnode["reftype"] = "obj"
        refnode["may_be_undocumented"] = HAS_TO_BE_DOCUMENTED.match(target) is None
        return title, target


def setup(app: Sphinx) -> ExtensionMetadata:
    """What Sphinx calls."""
    app.add_role("name", NameRole())
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-docstring", shape)
    app.connect("autodoc-process-signature", sign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
