"""The command `dirgate`. What it needs is imported when it needs it: `dirgate --help` answers at once."""

import os
import sys
from typing import Final

from dirgate.document import ALIASES, find_command, resources, summary_of
from dirgate.failures import Exit, Failure

_USAGE: Final = "Usage: dirgate RESOURCE ACTION [ID] [OPTION]..., for example: dirgate users search --q ada"


def main() -> None:
    """Run and exit with the status that says what became of it."""
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except Failure as failure:
        status = failure.status
        print(f"dirgate: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        status = Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the answer has gone, as `head` does. Nothing more can be told them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = Exit.DONE
    except OSError as error:
        status = Exit.NOT_WRITTEN
        print(f"dirgate: The answer cannot be written: {error}. If it was a change, it was made.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(int(status))


def _run(words: list[str]) -> Exit:
    if not words or words[0] in ("--help", "-h", "help"):
        return _help()
    if words[0] in ("--version", "__complete", "completion", "man"):
        from dirgate.reference import tell

        print(tell(words[0], words[1:]), end="")
        return Exit.DONE
    if words[0] == "login":
        from dirgate.login import log_in

        return log_in()
    return _operation(words)


def _operation(words: list[str]) -> Exit:
    resource = ALIASES.get(words[0], words[0])
    actions = resources().get(resource)
    if actions is None:
        raise Failure(f"There is no {words[0]}. {_nearest(words[0], [*resources(), *ALIASES])}")
    if len(actions) == 1 and (len(words) == 1 or words[1].startswith("-")):
        words = [resource, actions[0], *words[1:]]
    if len(words) == 1 or words[1] in ("--help", "-h"):
        return _help_of(resource, actions)
    command = find_command(resource, words[1])
    if command is None:
        raise Failure(f"{resource} cannot {words[1]}. {_nearest(words[1], actions)}")
    from dirgate.arguments import parse

    given = parse(command, words[2:])
    from dirgate.connection import Gateway, load_settings
    from dirgate.running import run

    return run(command, given, Gateway(load_settings(url=given.options.url, client_id=given.options.client_id)))


def _nearest(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1)
    return f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(known))}."


def _help() -> Exit:
    print(_USAGE)
    print("\nResources, each with its actions:\n")
    for resource, actions in sorted(resources().items()):
        print(f"  {resource:20} {', '.join(action for action in sorted(actions) if not action.startswith('batch-'))}")
    print("\n`dirgate RESOURCE` explains its actions, `dirgate RESOURCE ACTION --help` the options of one.")
    print("Short: " + ", ".join(f"{short} for {long}" for short, long in ALIASES.items()) + ".")
    print("Begin with `dirgate login`. Others: `dirgate completion SHELL`, `dirgate man`, `dirgate --version`.")
    return Exit.DONE


def _help_of(resource: str, actions: list[str]) -> Exit:
    width = max(map(len, actions))
    for action in sorted(actions):
        print(f"  dirgate {resource} {action:{width}}  {summary_of(resource, action)}")
    return Exit.DONE
