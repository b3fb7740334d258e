"""The columns of a list of directory objects: attributes that a person chose for a kind, kept in their session."""

from collections.abc import Iterable

from console.page_context import PageContext
from directory.shapes.kinds import DEFAULT_ATTRIBUTES, RESOURCES

_KEPT = "console-columns"
MOST = 20
"""A table with more columns is no table any more."""


def usual_columns(resource: str) -> tuple[str, ...]:
    """What is shown of the objects under a path to who has chosen nothing."""
    return RESOURCES[resource].columns


def find_columns(page: PageContext, resource: str) -> tuple[str, ...]:
    """The columns that the person has chosen for the objects under a path, else the usual ones."""
    chosen = page.request.session.get(_KEPT, {}).get(resource)
    return usual_columns(resource) if chosen is None else tuple(chosen)


def keep_columns(page: PageContext, resource: str, names: Iterable[str]) -> None:
    """Keep what a person has chosen; nothing chosen brings the usual columns back."""
    kept = dict(page.request.session.get(_KEPT, {}))
    chosen = list(dict.fromkeys(names))[:MOST]
    if chosen:
        kept[resource] = chosen
    else:
        kept.pop(resource, None)
    page.request.session[_KEPT] = kept


def offered_columns(resource: str) -> list[str]:
    """The attributes to offer for the objects under a path, by name."""
    names = {name for kind in RESOURCES[resource].kinds for name in DEFAULT_ATTRIBUTES[kind]}
    return sorted({*names, *usual_columns(resource)}, key=str.lower)
