"""The prompts: whole tasks that a person picks in their client, for someone who joins or leaves, and for an audit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class UnknownPrompt(Exception):
    """No prompt has this name."""


class MissingArgument(Exception):
    """A prompt needs an argument that was not given."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`arguments` gives the description of each; all are needed. `text` has their names in braces."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, str]
    text: str

    def as_json(self) -> dict[str, Any]:
        """As the list of prompts shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "arguments": [
                {"name": name, "description": about, "required": True} for name, about in self.arguments.items()
            ],
        }


PROMPTS = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            name="joiner",
            title="Somebody joins",
            description="Make the account of a new colleague like that of somebody who does the same work.",
            arguments={"person": "Who joins: name, title, first day.", "like": "A colleague who does the same work."},
            text="Somebody joins: {person}. Look whether there is an account already. Read the account of {like} with"
            " its memberships, and make a user in the same unit with the same kind of names, department and manager,"
            " disabled. Show me which of the memberships you suggest, and why not the others; add those that I agree"
            " to. Give each change the first day as its reason, and tell me what waits for a person.",
        ),
        Prompt(
            name="leaver",
            title="Somebody leaves",
            description="Take away what somebody who leaves can do, in an order that can be undone.",
            arguments={"person": "Who leaves: name or account name, and the last day."},
            text="Somebody leaves: {person}. Find the account; if several come into question, ask me. Read it with its"
            " memberships, and find whose manager it is and which groups it manages. Preview disabling it and taking it"
            " out of its groups, and show me both with what would be left without an owner. When I agree, do it. Do not"
            " delete anything. Give each change the last day as its reason, and tell me what waits for a person.",
        ),
        Prompt(
            name="audit",
            title="Look through a unit",
            description="List what deserves a look among the accounts and groups of a unit. Changes nothing.",
            arguments={"unit": "The unit: name or distinguished name."},
            text="Look through the unit {unit} and change nothing. List accounts that are enabled and have not signed"
            " in for 90 days or never, whose password never expires or is not required, that are locked out or"
            " expire in 30 days; groups without members; and, if you may see it, what was delegated to whom. Say for"
            " each how many there are and name the ten that matter most, with the evidence.",
        ),
    )
}


def render_prompt(name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """The messages of a prompt; raises UnknownPrompt or MissingArgument."""
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise UnknownPrompt
    for needed in prompt.arguments:
        if not arguments.get(needed, "").strip():
            raise MissingArgument(needed)
    # One pass: an argument with braces stands as it was given.
    text = prompt.text.format(**{needed: arguments[needed].strip() for needed in prompt.arguments})
    return {
        "description": prompt.description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        "resultType": "complete",
    }
