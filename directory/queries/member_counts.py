"""How many members a group has, counted as its list of members shows them."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from time import monotonic
from typing import NamedTuple

from active_directory import Client, Entry, Equals
from directory.groups import relative_id
from directory.lookup.visibility import Visibility
from directory.queries.searches.listed import find_accounts, name_filter

_MANY = 1000
"""Accounts of one primary group that are counted once in `_MAX_AGE` seconds: Samba takes 50 µs for each."""
_MAX_AGE = 60.0


class _Count(NamedTuple):
    made_at: float
    accounts: int


_Key = tuple[tuple[str, ...] | None, int]


def member_counts(client: Client, visibility: Visibility, groups: Sequence[Entry]) -> list[int]:
    """How many members the list of each group shows, whose entries have `member` and objectSid.

    It leaves out members of other domains, and those outside the connection's base or the caller's scopes. A directory
    keeps an account out of `member` of its primary group.
    """
    of_connection = Visibility.of(client, confidential=False, bases=(client.settings.base_dn,))
    is_seen = name_filter(client, visibility, of_connection)
    numbers = [relative_id(group) for group in groups]
    asked = {number for number in numbers if number is not None}
    accounts = _count_accounts(client, visibility.bases, is_seen, asked)
    return [
        accounts.get(number or 0, 0) + sum(is_seen(name) for name in group.texts("member"))
        for group, number in zip(groups, numbers, strict=True)
    ]


def _count_accounts(
    client: Client, bases: tuple[str, ...] | None, is_seen: Callable[[str], bool], numbers: Collection[int]
) -> dict[int, int]:
    """By primary group, how many accounts are seen."""
    known: dict[_Key, _Count] = client.kept.setdefault(_Count, {})
    now = monotonic()
    counts = {
        number: last.accounts
        for number in numbers
        if (last := known.get((bases, number))) is not None and now - last.made_at < _MAX_AGE
    }
    found: Counter[int] = Counter()
    unknown = [number for number in numbers if number not in counts]
    wanted = (Equals("primaryGroupID", number) for number in unknown)
    for account in find_accounts(client, wanted, "primaryGroupID"):
        number = account.number("primaryGroupID")
        found[number] += 1
        counts[number] = counts.get(number, 0) + is_seen(account.dn)
    for number, total in found.items():
        if total > _MANY:
            known[bases, number] = _Count(now, counts[number])
    return counts
