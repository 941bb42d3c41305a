"""The public names, which the API reference lists: a change of them changes its pages, and belongs in the changelog.

Building the site, which finds pages that no table names, is for CI.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import robotgate
from robotgate import errors as _errors

DOCS: Final = Path(__file__).parents[1] / "docs"
API: Final = sorted((DOCS / "api").glob("*.md"))
PARTS: Final = """
    events lint rules sites integrations.crawlee integrations.httpx integrations.playwright integrations.scrapy observe
    integrations.urlfrontier integrations.workers signing sitemaps dashboard stores stores.redis testing
    testing.aioresponses threads preferences prices
"""
PUBLIC_MODULES: Final = ("robotgate", *(f"robotgate.{name}" for name in PARTS.split()))
DIRECTIVE: Final = re.compile(
    r"^\.\. (?:(?P<module>currentmodule)|auto(?:class|exception|function)|py:data):: (?P<name>\S+)$",
    re.MULTILINE,
)


def documented(page: Path) -> list[str]:
    """The names that a page documents, in full."""
    module, names = "", []
    for found in DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
        if found["module"]:
            module = found["name"]
        else:
            names.append(found["name"] if "." in found["name"] else f"{module}.{found['name']}")
    return names


DOCUMENTED: Final = Counter(name for page in API for name in documented(page))


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_api_has_every_public_name_once(module: str) -> None:
    """Every public name is documented, in one place: none becomes public by accident."""
    names: list[str] = importlib.import_module(module).__all__
    assert {name: DOCUMENTED[f"{module}.{name}"] for name in names} == dict.fromkeys(names, 1)


def test_api_has_no_other_names() -> None:
    """No name that is documented stops being public by accident."""
    public = {
        f"{module}.{name}" for module in PUBLIC_MODULES for name in importlib.import_module(module).__all__
    }
    assert set(DOCUMENTED) - public == set()


def test_index_lists_the_names_of_the_root() -> None:
    """Its table has each of them once: the ten that a crawler needs, and the rest."""
    page = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted(robotgate.__all__)


def test_version_is_that_of_the_installed_package() -> None:
    """The version is written down once, in the package's metadata."""
    assert robotgate.__version__ == importlib.metadata.version("robotgate")


def test_page_of_errors_shows_the_tree_of_the_module() -> None:
    """It is written twice, so that it is at hand where errors are defined, and where they are looked up."""
    tree = re.search(r"^    RobotGateError\n(?:^    [^\n]+\n)+", _errors.__doc__ or "", re.MULTILINE)
    assert tree is not None
    shown = re.sub("^    ", "", tree[0], flags=re.MULTILINE)
    assert f"```text\n{shown}```" in (DOCS / "api" / "errors.md").read_text(encoding="utf-8")
