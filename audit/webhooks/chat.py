"""Events as messages for people, in the shapes that the incoming webhooks of Slack and of Microsoft Teams take.

A message tells what happens in a sentence, with a link: no values of attributes and nothing secret.
"""

import json
from dataclasses import dataclass
from typing import Any

from audit.webhooks.models import EndpointFormat
from core.text.unseen import for_people


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A sentence, what to know besides, and where to go; `link` is empty while no address of the console is known."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    link: str = ""


def body_of(format: EndpointFormat, message: ChatMessage) -> str:
    """The body that is posted."""
    facts = tuple((for_people(name), for_people(value)) for name, value in message.facts)
    plain = ChatMessage(for_people(message.title), facts, message.link)
    content = _slack(plain) if format is EndpointFormat.SLACK else _teams(plain)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _slack(message: ChatMessage) -> dict[str, Any]:
    """Text of a rich text block, in which nothing is formatted, and no address becomes a link.

    What goes without blocks, such as a notification, shows `text`: three characters are escaped there, a link is
    `<url|text>` (https://docs.slack.dev/messaging/formatting-message-text), and nothing is shown of other addresses.
    """
    title = _escaped(message.title)
    lines = [f"<{message.link}|{title}>" if message.link else f"*{title}*"]
    lines += [f"{_escaped(name)}: {_escaped(value)}" for name, value in message.facts]
    style = {"bold": True}
    title_run: dict[str, Any] = {"type": "text", "text": message.title, "style": style}
    if message.link:
        title_run = {"type": "link", "url": message.link, "text": message.title, "style": style}
    runs = [title_run, *({"type": "text", "text": f"\n{name}: {value}"} for name, value in message.facts)]
    block = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": runs}]}
    return {"text": "\n".join(lines), "blocks": [block], "unfurl_links": False, "unfurl_media": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(message: ChatMessage) -> dict[str, Any]:
    """An adaptive card, as the workflow "When a Teams webhook request is received" takes it (schema version 1.4).

    Text runs alone: text blocks and facts would render Markdown, and names and reasons are foreign.
    """
    body = [_text_runs({"text": message.title, "weight": "Bolder"})]
    body += [_text_runs({"text": f"{name}: ", "weight": "Bolder"}, {"text": value}) for name, value in message.facts]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if message.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": message.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text_runs(*runs: dict[str, str]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", **run} for run in runs]}
