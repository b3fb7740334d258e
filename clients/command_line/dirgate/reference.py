"""The manual page, the page of the documentation, and completion, all made from the commands."""

from collections.abc import Iterable
from typing import Final

from dirgate import __version__
from dirgate.document import ALIASES, find_command, resources, summary_of
from dirgate.failures import MEANINGS, Failure

OWN: Final = {
    "login": "Keep the gateway's address and an API key for the commands to come.",
    "completion": "Print the completion of a shell: bash, zsh or powershell.",
    "man": "Print the manual page.",
}
"""The commands that call no operation."""
VARIABLES: Final = {
    "GATEWAY_URL": "The gateway's address, such as https://gateway.corp.example.",
    "GATEWAY_KEY_FILE": "A file with the API key, which only you may read (mode 0600).",
    "GATEWAY_KEY": "The API key itself, for machines that keep secrets in the environment.",
    "GATEWAY_CLIENT_ID": "The directory link, for a key that has several.",
    "GATEWAY_CA_FILE": "A file with the certificate authority of the gateway's certificate.",
    "NO_COLOR": "If it is set, nothing is bold.",
}

SHELLS: Final = {
    "bash": """\
_dirgate() {
    local IFS=$'\\n'
    COMPREPLY=($(dirgate __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _dirgate dirgate
""",
    "zsh": """\
#compdef dirgate
_dirgate() {
    local -a found
    found=("${(@f)$(dirgate __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found
}
compdef _dirgate dirgate
""",
    "powershell": """\
Register-ArgumentCompleter -Native -CommandName dirgate -ScriptBlock {
    param($word, $line, $position)
    $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($word -eq '') { $words += '""' }
    dirgate __complete @words 2>$null | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}
""",
}


def tell(what: str, words: list[str]) -> str:
    """What `dirgate --version`, `man`, `completion` and the completion itself print. Raises Failure."""
    match what, words:
        case "--version", []:
            return f"dirgate {__version__}\n"
        case "man", []:
            return man_page()
        case "completion", [shell] if shell in SHELLS:
            return SHELLS[shell]
        case "__complete", _:
            return "".join(f"{word}\n" for word in complete(words))
    raise Failure(f"Write `dirgate --version`, `dirgate man` or `dirgate completion {'|'.join(SHELLS)}`.")


def complete(words: list[str]) -> list[str]:
    """What the last word may become."""
    *before, last = [word if word != '""' else "" for word in words] or [""]
    return [word for word in _possible(before, last) if word.startswith(last)]


def _possible(before: list[str], last: str) -> Iterable[str]:
    found = resources()
    if not before:
        return sorted([*found, *ALIASES, *OWN])
    resource = ALIASES.get(before[0], before[0])
    if before[0] == "completion":
        return sorted(SHELLS)
    if len(before) == 1:
        return sorted(found.get(resource, ()))
    command = find_command(resource, before[1])
    if command is None:
        return ()
    chosen = [option.choices for option in command.options if option.flag == before[-1]]
    if chosen and chosen[0]:
        return sorted(chosen[0])
    return _flags(command.name) if last.startswith("-") else ()


def _flags(name: str) -> list[str]:
    from dirgate.arguments import make_parser

    command = find_command(*name.split(" "))
    assert command is not None
    flags = (flag for action in make_parser(command)._actions for flag in action.option_strings)
    return sorted(flag for flag in flags if flag.startswith("--"))


def man_page() -> str:
    """The manual page in roff."""
    lines = [
        f'.TH DIRGATE 1 "" "dirgate {__version__}"',
        ".SH NAME",
        "dirgate \\- Active Directory through its gateway",
    ]
    lines += [".SH SYNOPSIS", ".B dirgate", "RESOURCE ACTION [ID] [OPTION]..."]
    lines += [".SH DESCRIPTION", _roff(DESCRIPTION.strip())]
    lines.append(".SH COMMANDS")
    for resource, action in _commands():
        lines += [".TP", f".B {resource} {action}", _roff(summary_of(resource, action))]
    for name, meaning in OWN.items():
        lines += [".TP", f".B {name}", meaning]
    lines.append(".SH EXIT STATUS")
    for status, meaning in MEANINGS.items():
        lines += [".TP", f".B {int(status)}", _roff(meaning)]
    lines.append(".SH ENVIRONMENT")
    for name, meaning in VARIABLES.items():
        lines += [".TP", f".B {name}", _roff(meaning)]
    return "\n".join(lines).replace("`", "") + "\n"


def tables() -> str:
    """The tables of `docs/command-line.md`: commands, exit statuses, variables."""
    rows = ["| Command | What it does |", "|---|---|"]
    rows += [f"| `{resource} {action}` | {summary_of(resource, action)} |" for resource, action in _commands()]
    rows += [f"| `{name}` | {meaning} |" for name, meaning in OWN.items()]
    rows += ["", "| Exit status | Meaning |", "|---|---|"]
    rows += [f"| {int(status)} | {meaning} |" for status, meaning in MEANINGS.items()]
    rows += ["", "| Variable | Meaning |", "|---|---|"]
    rows += [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    return "\n".join(rows) + "\n"


DESCRIPTION: Final = """\
dirgate reads and changes Active Directory through the Directory Management Gateway, which checks what your API key may
do, holds dangerous changes for approval and records each. Objects are named by id, account name, user principal name,
name or distinguished name. If several have the name, dirgate asks which one is meant; without a terminal it exits with
status 2. Answers are tables for people; --json prints them as the gateway gives them, for programs. `dirgate RESOURCE
ACTION --help` explains the options of a command.
"""


def _commands() -> Iterable[tuple[str, str]]:
    for resource, actions in sorted(resources().items()):
        for action in sorted(actions):
            yield resource, action


def _roff(text: str) -> str:
    return text.replace("\\", "\\\\").replace("-", "\\-")
