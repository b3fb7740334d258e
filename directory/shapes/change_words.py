"""A change said in words: what the inbox, a page, a preview, an e-mail and the log tell people of it.

Nothing here reads anything: a change is said from the values that were kept with it. The headline says what is done to
which object, without any value of an attribute besides names; the details say what becomes of each attribute.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from directory.ldap import DistinguishedName
from directory.shapes.attribute_labels import label_of
from directory.shapes.names import parsed
from directory.shapes.value_words import Named, Phrase, ValueChange, object_named, plain, say_values

_SHOWN: Final = 3
"""So many members, attributes or values are named; of the others their number."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What becomes of an attribute: `label` is what people call it, empty where the text is a whole sentence."""

    attribute: str
    label: str
    text: Phrase

    def __str__(self) -> str:
        return f"{self.label}: {plain(self.text)}" if self.label else plain(self.text)


@dataclass(frozen=True, slots=True)
class ChangeWords:
    """A change as people say it."""

    headline: Phrase
    details: tuple[Detail, ...]

    def __str__(self) -> str:
        return plain(self.headline)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """What is known of a change: the name of its operation, its target, the values, the objects that these name.

    `kind` is the target's, for an object that is made or removed. `references` are by distinguished name.
    """

    operation: str
    target: Named
    kind: str = ""
    changes: Sequence[ValueChange] = ()
    references: Mapping[str, Named] = field(default_factory=dict)

    @property
    def action(self) -> str:
        return self.operation.rpartition(".")[2]

    def change_of(self, attribute: str) -> ValueChange | None:
        wanted = attribute.lower()
        return next((each for each in self.changes if each.attribute.lower() == wanted), None)

    def named(self, distinguished_name: str) -> Named:
        return self.references.get(distinguished_name) or object_named(distinguished_name)


def change_facts(
    operation: str,
    changes: Iterable[Mapping[str, Any]],
    *,
    distinguished_name: str | None,
    target_id: str | None = None,
    account_name: str | None = None,
    kind: str = "",
    references: Iterable[Mapping[str, Any]] = (),
    own: bool = False,
) -> ChangeFacts:
    """The same from JSON: of a record of the log or a dry run (`before`, `after`), or of a change request (`current`,
    `proposed`). With `own` the target is a row of the gateway's own tables, whose name is no distinguished name."""
    name = distinguished_name or ""
    is_object = not own and parsed(name) is not None
    target = object_named(name, id=target_id, account_name=account_name) if is_object else Named(name)
    return ChangeFacts(
        operation=operation,
        target=target,
        kind=kind,
        changes=[ValueChange.read(change) for change in changes],
        references={
            each["name"]: object_named(each["name"], id=each["id"], account_name=each["accountName"])
            for each in references
        },
    )


def say(change: ChangeFacts) -> ChangeWords:
    """A change in words."""
    return ChangeWords(_headline(change), tuple(_details(change)))


def _headline(change: ChangeFacts) -> Phrase:
    say_it = _HEADLINES.get(change.action)
    if say_it is not None and (phrase := say_it(change)) is not None:
        return phrase
    return (f"{_words(change.action).capitalize()} ", change.target)


def _created(change: ChangeFacts) -> Phrase:
    return (f"Create {_article(change.kind)}", change.target)


def _updated(change: ChangeFacts) -> Phrase | None:
    if not change.changes:
        return ("Change ", change.target)
    control = change.change_of("userAccountControl")
    if control is not None and len(change.changes) == 1 and (switch := control.switch()) is not None:
        return (f"{'Disable' if switch else 'Enable'} ", change.target)
    member = change.change_of("member")
    if member is not None and len(change.changes) == 1:
        return _members(change)
    labels = list(dict.fromkeys(_in_sentence(_label(change, each)) for each in change.changes))
    return (f"Change {_listed(labels, 'attribute')} of ", change.target)


def _members(change: ChangeFacts) -> Phrase | None:
    """`Add Ada Lovelace to Domain Admins (3 members, then 4)`; what is not known is not said."""
    member = change.change_of("member")
    if member is None:
        return None
    added = [name for name in member.after if name not in member.before]
    removed = [name for name in member.before if name not in member.after]
    phrase: Phrase
    if added and removed:
        phrase = ("Add ", *_some(change, added), " to ", change.target)
        phrase = (*phrase, " and remove ", *_some(change, removed), " from it")
    elif added:
        phrase = ("Add ", *_some(change, added), " to ", change.target)
    elif removed:
        phrase = ("Remove ", *_some(change, removed), " from ", change.target)
    else:
        return None
    if member.kept is not None:
        now, then = member.kept + len(removed), member.kept + len(added)
        phrase = (*phrase, f" ({now} member{'' if now == 1 else 's'}, then {then})")
    return phrase


def _some(change: ChangeFacts, names: Sequence[str]) -> Phrase:
    """Objects by their names, of many the first ones."""
    shown = names if len(names) <= _SHOWN else names[: _SHOWN - 1]
    phrase: list[str | Named] = []
    for index, name in enumerate(shown):
        if index:
            phrase.append(" and " if index == len(names) - 1 else ", ")
        phrase.append(change.named(name))
    if len(names) > len(shown):
        phrase.append(f" and {len(names) - len(shown)} others")
    return tuple(phrase)


def _moved(change: ChangeFacts) -> Phrase | None:
    before, after = _places(change)
    if before is None or after is None:
        return ("Move ", change.target)
    phrase: Phrase = ("Move ", change.target, f" from {_unit(before.parent)} to {_unit(after.parent)}")
    if before.rdn_value != after.rdn_value:
        phrase += (f", with the name {after.rdn_value}",)
    return phrase


def _renamed(change: ChangeFacts) -> Phrase | None:
    _, after = _places(change)
    return ("Rename ", change.target, f" to {after.rdn_value}" if after is not None else "")


def _places(change: ChangeFacts) -> tuple[DistinguishedName | None, DistinguishedName | None]:
    names = change.change_of("distinguishedName")
    if names is None:
        return None, None
    return parsed(next(iter(names.before), None)), parsed(next(iter(names.after), None))


def _unit(name: DistinguishedName | None) -> str:
    """A place by its last part: `Sales`; the domain by its whole name."""
    if name is None:
        return "the root"
    if name.rdns and name.rdns[0][0][0].upper() == "DC":
        return ".".join(rdn[0][1] for rdn in name.rdns)
    return name.rdn_value


def _deleted(change: ChangeFacts) -> Phrase:
    names = change.change_of("distinguishedName")
    below = len(names.before) - 1 if names is not None else 0
    more = f" and the {below} objects below it" if below > 1 else " and the object below it" if below else ""
    return (f"Delete {_article(change.kind)}", change.target, *filter(None, (more,)))


def _restored(change: ChangeFacts) -> Phrase:
    names = change.change_of("distinguishedName")
    target = change.target if names is None or not names.after else object_named(names.after[0], id=change.target.id)
    return (f"Restore the deleted {kind_words(change.kind)} ", target)


def _run(change: ChangeFacts) -> Phrase:
    action = change.action.partition("-")[0].capitalize()
    count = len(change.changes)
    if not count:
        return (f"{action} the accounts of ", change.target)
    return (f"{action} {count} account{'' if count == 1 else 's'} in ", change.target)


def _reverted(change: ChangeFacts) -> Phrase:
    return ("Undo an earlier change of ", change.target)


_HEADLINES: Final[Mapping[str, Callable[[ChangeFacts], Phrase | None]]] = {
    "create": _created,
    "update": _updated,
    "change-members": _members,
    "move": _moved,
    "rename": _renamed,
    "delete": _deleted,
    "restore": _restored,
    "enable-accounts": _run,
    "disable-accounts": _run,
    "revert": _reverted,
    "reset-password": lambda change: ("Reset the password of ", change.target),
    "change-password": lambda change: ("Change the password of ", change.target),
}

_NOT_TOLD: Final = frozenset(
    ("distinguishedname", "objectclass", "objectcategory", "cn", "name", "ou", "isdeleted", "samaccounttype")
)
"""Said by the headline, or of no interest to a person."""
_TOLD_OF_DELETED: Final = frozenset(
    ("samaccountname", "title", "department", "description", "mail", "member", "memberof", "managedby", "manager")
)
"""Of all that goes with an object, what a person knows it by."""


def _details(change: ChangeFacts) -> Iterable[Detail]:
    if change.action in ("enable-accounts", "disable-accounts"):
        return  # its changes are accounts, not attributes
    for each in change.changes:
        name = each.attribute.lower()
        if name in _NOT_TOLD and not (name == "distinguishedname" and change.action == "revert"):
            continue
        if change.action == "delete" and name not in _TOLD_OF_DELETED:
            continue
        if name == "samaccountname" and change.action == "create" and each.after == (change.target.account_name,):
            continue
        yield from (
            Detail(each.attribute, label, text)
            for label, text in say_values(
                each, change.named, label=_label(change, each), of_whole=change.action in ("create", "delete")
            )
        )


def _label(change: ChangeFacts, each: ValueChange) -> str:
    """Rows of the gateway's own tables have members in camel case instead of attributes."""
    label = label_of(each.attribute)
    is_own = not change.target.place
    return _words(label).capitalize() if is_own and label == each.attribute else label


def _in_sentence(label: str) -> str:
    """A label in the middle of a sentence: only what is written in capitals stays so."""
    first = label.partition(" ")[0]
    return label if first.isupper() or any(letter.isupper() for letter in first[1:]) else label[:1].lower() + label[1:]


def _listed(words: Sequence[str], noun: str) -> str:
    """`title`, `title and mail`, `title, mail and 3 more attributes`."""
    if len(words) > _SHOWN:
        rest = len(words) - _SHOWN + 1
        return f"{', '.join(words[: _SHOWN - 1])} and {rest} more {noun}s"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


_OWN_TABLES: Final = {"api-keys": "API key", "people": "person", "directories": "directory connection"}


def kind_words(kind: str, count: int = 1) -> str:
    """What an object of a kind, or a row of an own table by its resource, is called, so many of them."""
    word = _OWN_TABLES.get(kind) or _words(kind or "object").removesuffix("s")
    return word if count == 1 else "people" if word == "person" else f"{word}s"


def _article(kind: str) -> str:
    return f"the {kind_words(kind)} " if kind and kind != "object" else ""


def _words(name: str) -> str:
    """`organizationalUnit`, `api-keys` as words."""
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return spaced.replace("-", " ").replace("_", " ").strip()


def say_many(changes: Sequence[ChangeFacts], count: int) -> str:
    """Several changes in one sentence: `Change department of 200 users`. `changes` are some of them."""
    actions = {change.action for change in changes}
    kinds = {change.kind for change in changes}
    objects = f"{count} {kind_words(kinds.pop() if len(kinds) == 1 else 'object', count)}"
    if len(actions) != 1:
        return f"{count} changes: {', '.join(sorted(_words(action) for action in actions))}"
    action = actions.pop()
    if action == "update":
        labels = list(dict.fromkeys(_in_sentence(_label(one, each)) for one in changes for each in one.changes))
        return f"Change {_listed(labels, 'attribute')} of {objects}" if labels else f"Change {objects}"
    if action == "change-members":
        return f"Change the members of {objects}"
    if action.endswith("-password"):
        return f"{_words(action).partition(' ')[0].capitalize()} the passwords of {objects}"
    return f"{_words(action).capitalize()} {objects}"
