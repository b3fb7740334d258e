"""Objects by the names that people have for them: id, account name, UPN, name or distinguished name."""

import re
import sys
from typing import Any, Final
from uuid import UUID

from dirgate.connection import Gateway
from dirgate.failures import Failure

_MANY: Final = 20


class NoSuchObject(Failure):
    """Nothing has that name."""


def find_id(gateway: Gateway, resource: str, given: str) -> str:
    """The id of an object of this resource. Raises NoSuchObject, or Failure if there are several and nobody to ask."""
    if is_id(given):
        return given
    if re.match(r"(?i)(cn|ou|dc)=.", given):
        return str(gateway.get(f"/api/ad/{resource}/by-dn", dn=given)["id"])
    page = gateway.get(f"/api/ad/{resource}", filter=_filter(given), pageSize=_MANY)
    found = page["items"]
    if not found:
        raise NoSuchObject(f"No object of {resource} is called {given}.")
    return str(found[0]["id"] if len(found) == 1 else _chosen(given, found)["id"])


def is_id(given: str) -> bool:
    try:
        UUID(given)
    except ValueError:
        return False
    return True


def _filter(given: str) -> str:
    """Finds an account name (a computer's without its $), a UPN or a name (RFC 4515 escapes)."""
    value = re.sub(r"[\\*()\x00]", lambda match: f"\\{ord(match[0]):02x}", given)
    if "@" in given:
        return f"(userPrincipalName={value})"
    return f"(|(sAMAccountName={value})(sAMAccountName={value}$)(name={value}))"


def _chosen(given: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """The one that the person at the terminal means."""
    names = [str(each["distinguishedName"]) for each in found]
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure(f"{given} is the name of {len(found)} objects: {'; '.join(names)}. Give one of these names.")
    for number, name in enumerate(names, 1):
        print(f"  {number}  {name}", file=sys.stderr)
    print(f"{given} is the name of {len(found)} objects. Which one? ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    if not answer.isdecimal() or not 1 <= int(answer) <= len(found):
        raise Failure("None was chosen; nothing was changed.")
    return found[int(answer) - 1]
