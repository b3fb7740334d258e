"""What ends a command early, each with its exit status."""

from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """The exit statuses, which scripts rely on."""

    DONE = 0
    NOT_WRITTEN = 1
    USAGE = 2
    REFUSED = 3
    WAITS = 4
    PARTLY_FAILED = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "The command has done what it says.",
    Exit.NOT_WRITTEN: "The answer could not be written, for example to a full disk. If it was a change, it was made.",
    Exit.USAGE: "The command was wrong, or a name is that of several objects. Nothing was changed.",
    Exit.REFUSED: "The gateway or the directory refused. The code of the error is on standard error.",
    Exit.WAITS: "The change waits for approval.",
    Exit.PARTLY_FAILED: "Some items of a batch, or some accounts of a run, failed.",
    Exit.UNREACHABLE: "The gateway did not answer. A change may have been made: "
    "the same command with the --idempotency-key that is printed does not make it twice.",
    Exit.INTERRUPTED: "You pressed Ctrl-C.",
}


class Failure(Exception):
    """A sentence for the person at the terminal, and the exit status."""

    def __init__(self, sentence: str, status: Exit = Exit.USAGE) -> None:
        super().__init__(sentence)
        self.status = status


class Refused(Failure):
    """The gateway's refusal: one line with its code, what is wrong, and what to do where dirgate knows it."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.code = str(problem.get("code", ""))
        self.problem = problem
        super().__init__(_sentence(status, problem), Exit.REFUSED)


_WHAT_TO_DO = {
    401: "Run `dirgate login`, or set GATEWAY_KEY_FILE.",
    412: "Read the object again and repeat the change with its new version.",
    429: "Wait, or ask an administrator for higher limits.",
}


def _sentence(status: int, problem: dict[str, Any]) -> str:
    said = str(problem.get("detail") or problem.get("title") or f"HTTP {status} without an explanation")
    fields = [f"{_place(each)}{each.get('detail', '')}" for each in problem.get("errors", ())]
    parts = [said, *(each for each in fields if each and each not in said), _WHAT_TO_DO.get(status, "")]
    text = " ".join(part if part.endswith((".", "!", "?", ";")) else f"{part}." for part in parts if part)
    return f"{problem.get('code') or f'HTTP {status}'}: {' '.join(text.split())}"


def _place(field: dict[str, Any]) -> str:
    place = field.get("pointer", "").removeprefix("#/") or field.get("parameter", "")
    return f"{place}: " if place else ""
