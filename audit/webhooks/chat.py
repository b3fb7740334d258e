"""Events as messages for people, in the shapes that the incoming webhooks of Slack and of Microsoft Teams take.

A message tells what happens in a sentence, with a link: no values of attributes and nothing secret.
"""

import json
from dataclasses import dataclass
from typing import Any

from audit.webhooks.models import EndpointFormat


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A sentence, what to know besides, and where to go; `link` is empty while no address of the console is known."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    link: str = ""


def body_of(format: EndpointFormat, message: ChatMessage) -> str:
    """The body that is posted."""
    content = _slack(message) if format is EndpointFormat.SLACK else _teams(message)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _slack(message: ChatMessage) -> dict[str, Any]:
    """Three characters are escaped, a link is `<url|text>` (https://docs.slack.dev/messaging/formatting-message-text)."""
    title = _escaped(message.title)
    lines = [f"<{message.link}|{title}>" if message.link else f"*{title}*"]
    lines += [f"{_escaped(name)}: {_escaped(value)}" for name, value in message.facts]
    return {"text": "\n".join(lines)}


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
