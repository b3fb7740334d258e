"""The prompts: whole tasks that a person picks in their client. `prompts.toml` has their texts."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from core.shapes import Json


class BadPrompt(Exception):
    """There is no such prompt, or it lacks an argument; the text says which."""


_PROMPTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def list_prompts() -> list[Json]:
    return [
        {
            "name": name,
            "title": prompt["title"],
            "description": prompt["description"],
            "arguments": [
                {"name": argument, "description": about, "required": True}
                for argument, about in prompt["arguments"].items()
            ],
        }
        for name, prompt in _PROMPTS.items()
    ]


def render_prompt(name: str, arguments: Mapping[str, str]) -> Json:
    """The messages of a prompt; raises BadPrompt for an unknown one, and without one of its arguments."""
    if name not in _PROMPTS:
        raise BadPrompt("There is no prompt of this name")
    prompt = _PROMPTS[name]
    given = {needed: arguments.get(needed, "").strip() for needed in prompt["arguments"]}
    for needed, value in given.items():
        if not value:
            raise BadPrompt(f"The prompt needs the argument {needed}")
    # One pass: an argument with braces stands as it was given.
    text = prompt["text"].format(**given)
    return {
        "description": prompt["description"],
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        "resultType": "complete",
    }
