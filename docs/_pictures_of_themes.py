"""Pictures in two versions, for light and for dark: pages have them as ``<picture>``, which hosting sites understand.

Sphinx does not copy the files that HTML names, and Furo's own switch between light and dark would not change them. So
each picture becomes two images of Sphinx's, of which Furo shows one.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Final

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

PICTURE: Final = re.compile(
    r'\s*<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">'
    r'\s*<img alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)">\s*</picture>\s*'
)
LOG: Final = logging.getLogger(__name__)


class PicturesOfThemes(SphinxTransform):
    """Runs before Sphinx collects the images of a page."""

    default_priority = 5

    def apply(self, **_options: object) -> None:
        """Replace each ``<picture>``; warn of other pictures in HTML, whose files would be missing."""
        for raw in list(self.document.findall(nodes.raw)):
            picture = PICTURE.fullmatch(raw.astext())
            if picture is not None:
                images = [self._image(picture, theme) for theme in ("light", "dark")]
                raw.replace_self(nodes.container("", *images, classes=["picture"]))
            elif re.search("<(img|picture|source)", raw.astext()):
                LOG.warning(
                    "a picture in HTML of another form than PICTURE: %r",
                    raw.astext(),
                    location=raw,
                )

    def _image(self, picture: re.Match[str], theme: str) -> nodes.Element:
        return nodes.image(
            "",
            uri=picture[theme],
            alt=html.unescape(picture["alt"]),
            classes=[f"only-{theme}"],
        )


def setup(app: Sphinx) -> ExtensionMetadata:
    """What Sphinx calls."""
    app.add_transform(PicturesOfThemes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
