"""The German catalogue, and the texts of the sources that belong into it, read without gettext's programs."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from django.utils.translation.template import templatize

from console.shared.texts import registered_texts
from lab.commands import PROJECT
from tests.support.house import FOLDERS

CATALOGUE: Final = PROJECT / "locale" / "de" / "LC_MESSAGES" / "django.po"
APPS: Final = (*FOLDERS, "directory_management_gateway")

_PLACES: Final = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop", "message"), (None, 0, None)),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (None, 0, 1)),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), (0, 1, None)),
    **dict.fromkeys(("npgettext", "npgettext_lazy"), (0, 1, 2)),
}
"""Which of their arguments are the context, the text and its plural, by the functions that mark a text."""
_MARKED: Final = re.compile(r"""\b(n?p?gettext|_)\(((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|u|count|,|\s)+)\)""")


class Text(NamedTuple):
    """What the catalogue calls a message."""

    english: str
    context: str | None = None
    plural: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A message with its translations: one, or for a plural the two of German."""

    text: Text
    german: tuple[str, ...]
    is_fuzzy: bool


def entries() -> list[Entry]:
    """The messages of the catalogue, without its header."""
    found = [_entry_of(block) for block in CATALOGUE.read_text("utf-8").split("\n\n")]
    return [entry for entry in found if entry is not None and entry.text.english]


def _entry_of(block: str) -> Entry | None:
    strings: dict[str, str] = {}
    keyword = ""
    for line in block.splitlines():
        if line.startswith("#"):
            continue
        keyword = keyword if line.startswith('"') else line.partition(" ")[0]
        strings[keyword] = strings.get(keyword, "") + ast.literal_eval(line[line.index('"') :])
    if "msgid" not in strings:
        return None
    german = tuple(text for name, text in strings.items() if name.startswith("msgstr"))
    text = Text(strings["msgid"], strings.get("msgctxt"), strings.get("msgid_plural"))
    return Entry(text, german, re.search(r"^#,.*\bfuzzy\b", block, re.MULTILINE) is not None)


def templates() -> list[Path]:
    """The templates that people read in their language: all but those of the back office."""
    every = sorted((PROJECT / "templates").rglob("*.*"))
    return [path for path in every if "admin" not in path.relative_to(PROJECT / "templates").parts[:1]]


def marked_texts() -> set[Text]:
    """What the sources mark for translation, and what is declared for it."""
    found = {Text(text) for text in registered_texts()}
    found |= {text for path in templates() for text in _marked_in_template(path.read_text("utf-8"))}
    for app in APPS:
        for path in (PROJECT / app).rglob("*.py"):
            source = path.read_text("utf-8")
            if "gettext" in source or "message(" in source:
                found |= set(_marked_in_python(ast.parse(source)))
    return found


def message_templates() -> set[str]:
    """The templates of all messages that the sources make."""
    sources = (path.read_text("utf-8") for app in APPS for path in (PROJECT / app).rglob("*.py"))
    calls = (node for source in sources if "message(" in source for node in ast.walk(ast.parse(source)))
    return {
        node.args[0].value
        for node in calls
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "message"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def _marked_in_python(tree: ast.AST) -> Iterator[Text]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PLACES:
            context, english, plural = (_text_at(node.args, place) for place in _PLACES[node.func.id])
            if english:
                yield Text(english, context, plural)


def _text_at(arguments: list[ast.expr], place: int | None) -> str | None:
    argument = arguments[place] if place is not None and place < len(arguments) else None
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else None


def _marked_in_template(source: str) -> Iterator[Text]:
    """By what Django makes of a template for gettext's programs: Python's calls, and nothing readable between them."""
    for name, arguments in _MARKED.findall(templatize(source)):
        yield from _marked_in_python(ast.parse(f"{name}({arguments})"))
