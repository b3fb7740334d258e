"""A hook of MkDocs: adds pages from outside docs/ to the site, with links that also work in the repository.

A link is written as it works in the repository (`../SECURITY.md`); for the site it is rewritten.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

PROJECT = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "clients/python/README.md": "clients/python.md",
    "clients/typescript/README.md": "clients/typescript.md",
}
"""The place on the site of each page outside docs/, by its path in the repository."""

_IN_REPOSITORY = {on_site: source for source, on_site in ELSEWHERE.items()}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
_LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages from outside docs/."""
    for source, on_site in ELSEWHERE.items():
        files.append(File.generated(config, on_site, content=(PROJECT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite a page's relative links from paths in the repository to paths on the site."""
    on_site = page.file.src_uri
    source = _IN_REPOSITORY.get(on_site, f"docs/{on_site}")

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        there = ELSEWHERE.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        # Links to other files stay as they are, and the strict build refuses them.
        return posixpath.relpath(there, posixpath.dirname(on_site) or ".") if there else link[1]

    return _LINK.sub(rewritten, markdown)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Refuse a page that loads anything from other sites, since the site must work in closed networks."""
    if loaded := _LOADED.search(output):
        raise PluginError(f"{page.file.src_uri} loads {loaded[1]}")
    return output
