"""How Sphinx makes the site: ``python -m sphinx -W --keep-going -n -j auto -b html docs build/site``.

Why Sphinx, MyST and Furo: docs/decisions.md. Three small extensions are beside this file: names in
docstrings (`_names_in_docstrings`), links to files of the repository (`_links_to_files`), and pictures for light and
dark themes (`_pictures_of_themes`).
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
# The extensions lie here; `autodoc` documents what is installed.
sys.path.insert(0, str(HERE))

_ABOUT: Final = tomllib.loads(
    (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
)["project"]

project: Final = "robotgate"
author: Final = "the robotgate developers"
project_copyright: Final = author
version: Final[str] = _ABOUT["version"]
release: Final = version
language: Final = "en"

extensions: Final = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_click",
    "_names_in_docstrings",
    "_links_to_files",
    "_pictures_of_themes",
]
# Pages for those who change robotgate are read in the repository: CONTRIBUTING.md links to them.
exclude_patterns: Final = ["_*", "decisions.md", "design.md"]
templates_path: Final[list[str]] = []

# Pages are read on hosting sites too: what they are written in is CommonMark with tables, as those read it, and the
# anchors of headings are those that they make.
myst_gfm_only: Final = False
myst_heading_anchors: Final = 4
myst_url_schemes: Final = ["http", "https", "mailto"]

# What stands in single backticks in a docstring is a name; see `_names_in_docstrings`.
default_role: Final = "name"
add_module_names: Final = False
toc_object_entries_show_parents: Final = "hide"
python_maximum_signature_line_length: Final = 88
python_display_short_literal_types: Final = True
autodoc_default_options: Final = {
    "members": True,
    "undoc-members": True,
    "member-order": "bysource",
}
autodoc_class_signature: Final = "mixed"
autodoc_typehints: Final = "signature"
autodoc_typehints_format: Final = "short"

# The project's files on the web, as f"{repository_files}/{path}".
repository_files: Final[str] = _ABOUT["urls"]["Files"]

nitpicky: Final = True
nitpick_ignore_regex: Final = [
    # Other people's names. Their inventories would be fetched from the network, which a build has no need of.
    (
        "py:.*",
        r"(aiohttp|async_api|asyncio|collections|contextlib|datetime|httpx|aioresponses|logging|math|multidict|os|pathlib|playwright|re|scrapy|socket|sqlite3|yarl)\..*",
    ),
    # The same, as modules of ours import them for their type hints.
    (
        "py:class",
        r"Abstract\w+|BaseSettings|Channel|CIMultiDict(Proxy)?|Client(Request|Response|Timeout)|Connection|Crawler",
    ),
    ("py:class", r"Redis(Cluster)?|Request|Trace|URL|web\.Application"),
    ("py:class", r"CollectorRegistry|MeterProvider|TracerProvider"),
    ("py:class", "SocketFactoryType|datetime"),
    # Ours, but not public: described where they are returned.
    (
        "py:class",
        r"Awaited|Doors|FetchOptions|Host|Json(Array|Object)|Kind\d?|PacedOrigin|PageFetch|PreferenceFile|Route|Ruling|Said|Site|Turns|TurnState",
    ),
    ("py:class", "GateMiddleware|_Blocks"),
    ("py:class", "PrometheusExporter|Telemetry"),
    (
        "py:class",
        r"robotgate\.(client\.(attempt\.RequestOptions|fetch\.PageFetch|middleware\.GateMiddleware|response\.Text)|sites\.site\.(Ruling|Site)|rules\.parser\.Pace)",
    ),
    ("py:class", r"robotgate\.stores\.[\w.]+Session"),
    # Those of an `httpx.AsyncClient` and of an `aiohttp.TCPConnector`.
    ("py:class", r"(robotgate\.integrations\.httpx\.)?ClientOptions"),
    ("py:class", r"robotgate\.client\.connector\.ConnectorOptions"),
    # A default that is made anew each time is no expression, and what stands before it is then cut at its commas.
    ("py:class", r"Mapping\[str"),
    # Nor these, which stand for options that are described in words.
    (
        "py:class",
        "ConnectorOptions|MakeAnother|MakeStore|Moment|RequestOptions|SessionOptions|SkippedRequest|StoreOption|T",
    ),
]

html_theme: Final = "furo"
html_title: Final = f"robotgate {version}"
html_static_path: Final = ["_static"]
html_css_files: Final = ["site.css"]
html_copy_source: Final = False
html_theme_options: Final = {"navigation_with_keys": True}
pygments_style: Final = "default"
pygments_dark_style: Final = "monokai"
