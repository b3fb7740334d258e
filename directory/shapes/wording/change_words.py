"""A change said in words: what the inbox, a page, a preview, an e-mail and the log tell people of it.

Nothing here reads anything: a change is said from the values that were kept with it. The headline says what is done to
which object, without any value of an attribute besides names; the details say what becomes of each attribute.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from active_directory import DistinguishedName
from core.text.messages import translated
from core.text.vocabulary import capitalized, humanize, in_sentence, noun_label, translate_label
from directory.shapes.kinds import KINDS, RESOURCES, Kind
from directory.shapes.wording.attribute_labels import label_of
from directory.shapes.wording.names import parsed
from directory.shapes.wording.operation_labels import operation_phrase, operation_words
from directory.shapes.wording.value_words import Named, Phrase, ValueChange, filled, object_named, plain, say_values

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
    return operation_phrase(change.operation, change.target)


def _created(change: ChangeFacts) -> Phrase:
    return operation_phrase(change.operation, _of_its_kind(change))


def _updated(change: ChangeFacts) -> Phrase | None:
    if not change.changes:
        return filled(_("Change {object}"), object=change.target)
    control = change.change_of("userAccountControl")
    if control is not None and len(change.changes) == 1 and (switch := control.switch()) is not None:
        return operation_phrase("users.disable" if switch else "users.enable", change.target)
    member = change.change_of("member")
    if member is not None and len(change.changes) == 1:
        return _members(change)
    labels = list(dict.fromkeys(in_sentence(_label(change, each)) for each in change.changes))
    return filled(_("Change {attributes} of {object}"), attributes=_listed(labels), object=change.target)


def _members(change: ChangeFacts) -> Phrase | None:
    """`Add Ada Lovelace to Domain Admins (3 members, then 4)`; what is not known is not said."""
    member = change.change_of("member")
    if member is None:
        return None
    added = [name for name in member.after if name not in member.before]
    removed = [name for name in member.before if name not in member.after]
    phrase: Phrase
    if added and removed:
        text = _("Add {added} to {group} and remove {removed} from it")
        phrase = filled(text, added=_some(change, added), group=change.target, removed=_some(change, removed))
    elif added:
        phrase = filled(_("Add {members} to {group}"), members=_some(change, added), group=change.target)
    elif removed:
        phrase = filled(_("Remove {members} from {group}"), members=_some(change, removed), group=change.target)
    else:
        return None
    if member.kept is not None:
        now, then = member.kept + len(removed), member.kept + len(added)
        text = ngettext("{change} ({now} member, then {then})", "{change} ({now} members, then {then})", now)
        return filled(text, change=phrase, now=now, then=then)
    return phrase


def _some(change: ChangeFacts, names: Sequence[str]) -> Phrase:
    """Objects by their names, of many the first ones."""
    shown = names if len(names) <= _SHOWN else names[: _SHOWN - 1]
    named = [change.named(name) for name in shown]
    if len(names) > len(shown):
        return filled(_("{names} and {count} others"), names=_enumerated(named), count=len(names) - len(shown))
    if len(named) > 1:
        return filled(_("{names} and {last}"), names=_enumerated(named[:-1]), last=named[-1])
    return tuple(named)


def _enumerated(names: Sequence[Named]) -> Phrase:
    return tuple(part for name in names for part in (", ", name))[1:]


def _moved(change: ChangeFacts) -> Phrase | None:
    before, after = _places(change)
    if before is None or after is None:
        return None
    if before.rdn_value != after.rdn_value:
        text = _("Move {object} from {old_place} to {new_place}, with the name {name}")
    else:
        text = _("Move {object} from {old_place} to {new_place}")
    return filled(
        text,
        object=change.target,
        old_place=_unit(before.parent),
        new_place=_unit(after.parent),
        name=after.rdn_value,
    )


def _renamed(change: ChangeFacts) -> Phrase | None:
    after = _places(change)[1]
    if after is None:
        return None
    return filled(_("Rename {object} to {name}"), object=change.target, name=after.rdn_value)


def _places(change: ChangeFacts) -> tuple[DistinguishedName | None, DistinguishedName | None]:
    names = change.change_of("distinguishedName")
    if names is None:
        return None, None
    return parsed(next(iter(names.before), None)), parsed(next(iter(names.after), None))


def _unit(name: DistinguishedName | None) -> str:
    """A place by its last part: `Sales`; the domain by its whole name."""
    if name is None:
        return _("the root")
    if name.rdns and name.rdns[0][0][0].upper() == "DC":
        return ".".join(rdn[0][1] for rdn in name.rdns)
    return name.rdn_value


def _deleted(change: ChangeFacts) -> Phrase:
    names = change.change_of("distinguishedName")
    below = len(names.before) - 1 if names is not None else 0
    if below <= 0:
        return operation_phrase(change.operation, _of_its_kind(change))
    text = ngettext(
        "Delete {object} and the object below it", "Delete {object} and the {count} objects below it", below
    )
    return filled(text, object=_of_its_kind(change), count=below)


def _restored(change: ChangeFacts) -> Phrase:
    names = change.change_of("distinguishedName")
    target = change.target if names is None or not names.after else object_named(names.after[0], id=change.target.id)
    return filled(_("Restore the deleted {kind} {object}"), kind=kind_words(change.kind), object=target)


def _run(change: ChangeFacts) -> Phrase | None:
    count = len(change.changes)
    if not count:
        return None
    if change.action == "enable-accounts":
        text = ngettext("Enable {count} account in {unit}", "Enable {count} accounts in {unit}", count)
    else:
        text = ngettext("Disable {count} account in {unit}", "Disable {count} accounts in {unit}", count)
    return filled(text, count=count, unit=change.target)


def _reverted(change: ChangeFacts) -> Phrase:
    return filled(_("Undo an earlier change of {object}"), object=change.target)


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
    return capitalized(noun_label(label)) if is_own and label == each.attribute else label


def _listed(labels: Sequence[str]) -> str:
    """`title`, `title and mail`, `title, mail and 3 more attributes`."""
    if len(labels) > _SHOWN:
        first, rest = labels[: _SHOWN - 1], len(labels) - _SHOWN + 1
        return _("{names} and {count} more attributes").format(names=", ".join(first), count=rest)
    if len(labels) > 1:
        return _("{names} and {last}").format(names=", ".join(labels[:-1]), last=labels[-1])
    return labels[0]


_OWN_TABLES: Final = {"api-keys": "API key", "people": "person", "directories": "directory connection"}


def kind_words(kind: str, count: int = 1) -> str:
    """What an object of a kind, or a row of an own table by its resource, is called, so many of them."""
    if not kind or kind in set(Kind):
        declared = KINDS[Kind(kind or Kind.OBJECT)]
        return translated(declared.singular if count == 1 else declared.many)
    word = _OWN_TABLES.get(kind) or humanize(kind).removesuffix("s")
    return translate_label(word if count == 1 else "people" if word == "person" else f"{word}s")


def resource_words(resource: str, count: int) -> str:
    """What the objects under a path are called, so many of them."""
    declared = RESOURCES.get(resource) or RESOURCES["objects"]
    return kind_words(declared.kind, count)


def _of_its_kind(change: ChangeFacts) -> Phrase:
    """`the user Ada Lovelace`."""
    if not change.kind or change.kind == "object":
        return (change.target,)
    return filled(_("the {kind} {object}"), kind=kind_words(change.kind), object=change.target)


def say_many(changes: Sequence[ChangeFacts], count: int) -> str:
    """Several changes in one sentence: `Change department of 200 users`. `changes` are some of them."""
    actions = {change.action for change in changes}
    kinds = {change.kind for change in changes}
    if len(actions) != 1:
        names = ", ".join(sorted(noun_label(action) for action in actions))
        return _("{count} changes: {actions}").format(count=count, actions=names)
    action = actions.pop()
    objects = f"{count} {kind_words(kinds.pop() if len(kinds) == 1 else 'object', count)}"
    if action == "update":
        labels = list(dict.fromkeys(in_sentence(_label(one, each)) for one in changes for each in one.changes))
        if not labels:
            return _("Change {object}").format(object=objects)
        return _("Change {attributes} of {object}").format(attributes=_listed(labels), object=objects)
    return operation_words(changes[0].operation, objects)
