"""A browser without scripts on the console's pages: it opens addresses, fills in forms, presses buttons."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin

from tests.support.cast import Console
from tests.support.markup import markup_of

Fields = list[tuple[str, str]]


@dataclass
class Form:
    """A form of a page: where it is sent, its fields in their order, and what its buttons say, send and change."""

    action: str
    method: str
    fields: Fields = field(default_factory=list)
    buttons: dict[str, dict[str, str]] = field(default_factory=dict)

    def filled(self, typed: dict[str, str | list[str] | None], button: dict[str, str]) -> Fields:
        """What is sent: typed values in place of those that stand there, None for a box that is not ticked any more."""
        kept = [(name, value) for name, value in self.fields if name not in typed]
        given = [
            (name, value)
            for name, values in typed.items()
            for value in ([values] if isinstance(values, str) else values or [])
        ]
        pressed = [(button["name"], button.get("value", ""))] if "name" in button else []
        return [*kept, *given, *pressed]


class _Reader(HTMLParser):
    """Reads forms, and all text of a page but its choices."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.text: list[str] = []
        self._button: dict[str, str] = {}
        self._text_area = self._choice = ""
        self._from = 0
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get")))
        elif tag == "button":
            self._button, self._from = given, len(self.text)
        elif tag == "textarea":
            self._text_area, self._from = given["name"], len(self.text)
        elif tag == "select":
            self._choice = given["name"]
        elif tag == "option" and self._choice:
            chosen = dict(self.forms[-1].fields)
            if "selected" in given or self._choice not in chosen:
                chosen[self._choice] = given.get("value", "")
                others = [pair for pair in self.forms[-1].fields if pair[0] != self._choice]
                self.forms[-1].fields = [*others, (self._choice, given.get("value", ""))]
        elif tag == "input" and "name" in given:
            is_box = given.get("type") in ("checkbox", "radio")
            value = given.get("value", "on" if is_box else "")
            self.forms[-1].fields += [(given["name"], value)] * (not is_box or "checked" in given)

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = "".join(self.text[self._from :])
        if tag == "button" and self.forms:
            self.forms[-1].buttons.setdefault(" ".join(text.split()), self._button)
        elif tag == "textarea":
            self.forms[-1].fields.append((self._text_area, text.removeprefix("\n").replace("\n", "\r\n")))
        elif tag == "select":
            self._choice = ""


class PlainBrowser:
    """One person's browser: `status`, `text` (without tags) and `content` are those of the page it shows."""

    def __init__(self, console: Console) -> None:
        self._client = console.client
        self.address = "/console/"

    def open(self, address: str) -> "PlainBrowser":
        return self._show(self._client.get(urljoin(self.address, address)), address)

    def press(self, label: str, **typed: str | list[str] | None) -> "PlainBrowser":
        """Press a button with some fields filled in; `__` in a field's name stands for a dot."""
        form = next((form for form in self.forms if label in form.buttons), None)
        assert form is not None, f"{self.address} has no button {label!r}: {[*self.buttons]}"
        button = form.buttons[label]
        fields = form.filled({name.replace("__", "."): value for name, value in typed.items()}, button)
        address = urljoin(self.address, button.get("formaction") or form.action or self.address)
        if form.method.lower() == "get":
            return self.open(f"{address.partition('?')[0]}?{urlencode(fields)}")
        sent: dict[str, list[str]] = {}
        for name, value in fields:
            sent.setdefault(name, []).append(value)
        return self._show(self._client.post(address, sent), address)

    def ask_again(self) -> int:
        """Have the page ask for itself, as its scripts do; the status of what it gets, which is not shown."""
        return int(self._client.get(self.address, headers={"HX-Request": "true"}).status_code)

    @property
    def buttons(self) -> list[str]:
        return [label for form in self.forms for label in form.buttons]

    def _show(self, response: Any, address: str) -> "PlainBrowser":
        self.address = urljoin(self.address, address)
        if response.status_code == 302:
            return self.open(response["Location"])
        self.status = response.status_code
        self.content = markup_of(response.content)
        read = _Reader(response.content.decode())
        self.forms = read.forms
        self.text = " ".join("".join(read.text).split())
        return self
