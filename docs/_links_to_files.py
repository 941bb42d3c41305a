"""Links to files of the repository, which are written so that whoever reads a page on a hosting site can follow them.

In the site, a link to a file that has a page of its own leads to that page (`PAGES`); any other file or folder is at
``repository_files`` on the web. README.md is read in package indexes as well, so its links are absolute: the site's
first page, which shows it, has them as relative ones.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "README.md": "index",
    "SECURITY.md": "security",
    "benchmarks/results/tables.md": "benchmarks-tables",
    "docs": "index",
}
RAW: Final = "https://raw.githubusercontent.com/robotgate/robotgate/main"
"""Where pictures are."""
README: Final = "```{include} ../README.md\n```"
SHOWN: Final = frozenset(page for path, page in PAGES.items() if "/" not in path)


class LinksToFiles(SphinxTransform):
    """Has its turn after MyST has made nodes of links, and before Sphinx looks for what they name."""

    default_priority = 5

    def apply(self, **_options: object) -> None:
        """Replace each link to a file that is no page of the site by what the site has in its place."""
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["reftype"] == "myst":
                self._replace(link)
        for file in list(self.document.findall(addnodes.download_reference)):
            self._replace(file)

    def _replace(self, node: nodes.Element) -> None:
        path, anchor = self._target(node)
        # Of what is not there, Sphinx warns.
        if path is not None:
            node.replace_self(self._link(node, path, anchor))

    def _target(self, node: nodes.Element) -> tuple[str | None, str]:
        """The path of a file in the repository, None for a page of the site or for no file; and what is behind #."""
        target: str = node["reftarget"]
        if node.get("refdomain") == "doc":
            # What MyST takes for a page, by its suffix, which it leaves out; by its full path if it is not below docs.
            # A page that the site leaves out is named from the folder of the pages.
            page = ROOT / "docs" / f"{target}.md"
            is_file = (
                target not in self.env.found_docs
                and page.is_relative_to(ROOT)
                and page.exists()
            )
            return page.relative_to(ROOT).as_posix() if is_file else None, node[
                "reftargetid"
            ] or ""
        target, _, anchor = target.partition("#")
        # A page that shows a file of the repository's root has links from there.
        folders = [
            posixpath.dirname(f"docs/{self.env.docname}"),
            *([""] if self.env.docname in SHOWN else []),
        ]
        paths = (posixpath.normpath(posixpath.join(folder, target)) for folder in folders)
        there = (
            path for path in paths if not path.startswith("..") and (ROOT / path).exists()
        )
        return next(there, None) if target else None, anchor

    def _link(self, node: nodes.Element, path: str, anchor: str) -> nodes.Element:
        if path in PAGES:
            return self._page(node, PAGES[path], anchor)
        files = self.config.repository_files
        fragment = f"#{anchor}" if anchor else ""
        return nodes.reference(
            "", "", *_words(node), refuri=f"{files}/{path}{fragment}", internal=False
        )

    def _page(self, node: nodes.Element, page: str, anchor: str) -> nodes.Element:
        link = addnodes.pending_xref(
            "",
            refdomain="doc",
            reftype="myst",
            reftarget=page,
            reftargetid=anchor or None,
            refdoc=self.env.docname,
            refexplicit=True,
            refwarn=True,
        )
        link += nodes.inline("", "", *_words(node), classes=["xref", "myst"])
        return link


def _words(node: nodes.Element) -> list[nodes.Node]:
    """What a link's reader sees: MyST puts it into an element of its own."""
    (inner,) = node.children
    return [child.deepcopy() for child in inner.children]


def show_readme(app: Sphinx, page: str, source: list[str]) -> None:
    """Put README.md where the first page says so, with links as from that page."""
    if page != "index":
        return
    readme = ROOT / "README.md"
    app.env.note_dependency(readme)
    text = readme.read_text(encoding="utf-8")
    for base in (RAW, app.config.repository_files):
        text = text.replace(f"{base}/docs/", "").replace(f"{base}/", "../")
    source[0] = source[0].replace(README, text)


def setup(app: Sphinx) -> ExtensionMetadata:
    """What Sphinx calls."""
    app.add_config_value("repository_files", "", "env", types=frozenset({str}))
    app.add_transform(LinksToFiles)
    app.connect("source-read", show_readme)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
