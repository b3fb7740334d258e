"""Changes described to people, in the inbox, pages, previews, e-mails and the log.

A description is made only from the values that were kept with the change. The headline says what is done to which
object, without attribute values other than names; the details say what becomes of each attribute.
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
from directory.shapes.proposal import AttributeChange
from directory.shapes.wording.labels import label_of, operation_phrase, operation_words
from directory.shapes.wording.value_words import (
    NamedObject,
    Phrase,
    describe_values,
    disables_account,
    fill,
    join_names,
    named_object,
    parse_name,
    plain_text,
)

_MAX_NAMES: Final = 3
"""A headline names so many members or attributes, and gives the number of the others."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What becomes of an attribute. `label` is its name for people, empty where the text is a whole sentence."""

    attribute: str
    label: str
    text: Phrase

    def __str__(self) -> str:
        return f"{self.label}: {plain_text(self.text)}" if self.label else plain_text(self.text)


@dataclass(frozen=True, slots=True)
class ChangeWords:
    """The description of a change."""

    headline: Phrase
    details: tuple[Detail, ...]

    def __str__(self) -> str:
        return plain_text(self.headline)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """What a description is made from: the operation's name, its target, the values, and the objects they refer to.

    `kind` is the target's, where that is created or deleted. `references` are by distinguished name.
    """

    operation: str
    target: NamedObject
    kind: str = ""
    changes: Sequence[AttributeChange] = ()
    references: Mapping[str, NamedObject] = field(default_factory=dict)

    @property
    def action(self) -> str:
        return self.operation.rpartition(".")[2]

    def change_of(self, attribute: str) -> AttributeChange | None:
        wanted = attribute.lower()
        return next((each for each in self.changes if each.attribute.lower() == wanted), None)

    def named(self, distinguished_name: str) -> NamedObject:
        return self.references.get(distinguished_name) or named_object(distinguished_name)


def change_facts(
    operation: str,
    changes: Iterable[Mapping[str, Any]],
    target: Mapping[str, Any] | None,
    *,
    account_name: str | None = None,
    kind: str = "",
    references: Iterable[Mapping[str, Any]] = (),
    own: bool = False,
) -> ChangeFacts:
    """The facts from JSON of a log record or dry run (`before`, `after`) or a change request (`current`, `proposed`).

    `target` has its `distinguishedName` and, if it exists already, `id`. With `own` it is a row of the gateway's own
    tables, whose name is no distinguished name.
    """
    known = target or {}
    name = known.get("distinguishedName") or ""
    is_object = not own and parse_name(name) is not None
    return ChangeFacts(
        operation=operation,
        target=named_object(name, id=known.get("id"), account_name=account_name) if is_object else NamedObject(name),
        kind=kind,
        changes=[AttributeChange.from_json(change) for change in changes],
        references={
            each["name"]: named_object(each["name"], id=each["id"], account_name=each["accountName"])
            for each in references
        },
    )


def describe_change(change: ChangeFacts) -> ChangeWords:
    """The description of a change, in the reader's language."""
    make_headline = _HEADLINES.get(change.action)
    headline = make_headline(change) if make_headline is not None else None
    if headline is None:
        headline = operation_phrase(change.operation, change.target)
    return ChangeWords(headline, tuple(_details(change)))


def describe_in_short(change: ChangeFacts) -> str:
    """The headline, or for a calendar's line of members alone: `Domain Admins: Ada Lovelace leaves`."""
    member = change.change_of("member")
    if member is None or len(change.changes) > 1 or bool(member.before) == bool(member.after):
        return str(describe_change(change))
    names = member.after or member.before
    text = ngettext("{group}: {members} leaves", "{group}: {members} leave", len(names))
    if member.after:
        text = ngettext("{group}: {members} joins", "{group}: {members} join", len(names))
    return plain_text(fill(text, group=change.target, members=_list_of_objects(change, names)))


def _update_headline(change: ChangeFacts) -> Phrase | None:
    if not change.changes:
        return fill(_("Change {object}"), object=change.target)
    control = change.change_of("userAccountControl")
    if control is not None and len(change.changes) == 1 and (is_disabled := disables_account(control)) is not None:
        return operation_phrase("users.disable" if is_disabled else "users.enable", change.target)
    member = change.change_of("member")
    if member is not None and len(change.changes) == 1:
        return _members_headline(change)
    attributes = _listed_labels((change, each) for each in change.changes)
    return fill(_("Change {attributes} of {object}"), attributes=attributes, object=change.target)


def _members_headline(change: ChangeFacts) -> Phrase | None:
    """`Add Ada Lovelace to Domain Admins (3 members, then 4)`, without the numbers where they are not known."""
    member = change.change_of("member")
    if member is None:
        return None
    added = [name for name in member.after if name not in member.before]
    removed = [name for name in member.before if name not in member.after]
    if not (added or removed):
        return None
    text = _("Add {members} to {group}") if added else _("Remove {members} from {group}")
    if added and removed:
        text = _("Add {added} to {group} and remove {removed} from it")
    new, old = _list_of_objects(change, added), _list_of_objects(change, removed)
    phrase = fill(text, group=change.target, added=new, removed=old, members=new or old)
    if member.kept is not None:
        now, then = member.kept + len(removed), member.kept + len(added)
        text = ngettext("{change} ({now} member, then {then})", "{change} ({now} members, then {then})", now)
        return fill(text, change=phrase, now=now, then=then)
    return phrase


def _list_of_objects(change: ChangeFacts, names: Sequence[str]) -> Phrase:
    """The names of the objects; of many objects, the first ones and the number of the others."""
    named = [change.named(name) for name in names]
    return join_names(named, _MAX_NAMES, _("{names} and {count} others"), _("{names} and {last}"))


def _move_headline(change: ChangeFacts) -> Phrase | None:
    before, after = _old_and_new_name(change)
    if before is None or after is None:
        return None
    text = _("Move {object} from {old_place} to {new_place}")
    if before.rdn_value != after.rdn_value:
        text = _("Move {object} from {old_place} to {new_place}, with the name {name}")
    places = {"old_place": _container_name(before.parent), "new_place": _container_name(after.parent)}
    return fill(text, object=change.target, name=after.rdn_value, **places)


def _rename_headline(change: ChangeFacts) -> Phrase | None:
    after = _old_and_new_name(change)[1]
    if after is None:
        return None
    return fill(_("Rename {object} to {name}"), object=change.target, name=after.rdn_value)


def _old_and_new_name(change: ChangeFacts) -> tuple[DistinguishedName | None, DistinguishedName | None]:
    names = change.change_of("distinguishedName")
    if names is None:
        return None, None
    return parse_name(next(iter(names.before), None)), parse_name(next(iter(names.after), None))


def _container_name(name: DistinguishedName | None) -> str:
    """A container by the value of its RDN (`Sales`), a domain by its DNS name."""
    if name is None:
        return _("the root")
    if name.rdns and name.rdns[0][0][0].upper() == "DC":
        return ".".join(rdn[0][1] for rdn in name.rdns)
    return name.rdn_value


def _deletion_headline(change: ChangeFacts) -> Phrase:
    names = change.change_of("distinguishedName")
    below = len(names.before) - 1 if names is not None else 0
    if below <= 0:
        return operation_phrase(change.operation, _target_with_kind(change))
    text = ngettext(
        "Delete {object} and the object below it", "Delete {object} and the {count} objects below it", below
    )
    return fill(text, object=_target_with_kind(change), count=below)


def _restore_headline(change: ChangeFacts) -> Phrase:
    names = change.change_of("distinguishedName")
    target = change.target if names is None or not names.after else named_object(names.after[0], id=change.target.id)
    return fill(_("Restore the deleted {kind} {object}"), kind=kind_words(change.kind), object=target)


def _run_headline(change: ChangeFacts) -> Phrase | None:
    count = len(change.changes)
    if not count:
        return None
    if change.change_of("userAccountControl") is not None:  # the record of one account, which is its target
        return operation_phrase(f"users.{change.action.removesuffix('-accounts')}", change.target)
    if change.action.startswith("enable"):
        text = ngettext("Enable {count} account in {unit}", "Enable {count} accounts in {unit}", count)
    else:
        text = ngettext("Disable {count} account in {unit}", "Disable {count} accounts in {unit}", count)
    return fill(text, count=count, unit=change.target)


RUN_ACTIONS: Final = ("enable-accounts", "disable-accounts", "enable-all-accounts", "disable-all-accounts")
"""Changes of many accounts: account names stand in place of attributes."""
_HEADLINES: Final[Mapping[str, Callable[[ChangeFacts], Phrase | None]]] = {
    "create": lambda change: operation_phrase(change.operation, _target_with_kind(change)),
    "update": _update_headline,
    "change-members": _members_headline,
    "move": _move_headline,
    "rename": _rename_headline,
    "delete": _deletion_headline,
    "restore": _restore_headline,
    **dict.fromkeys(RUN_ACTIONS, _run_headline),
    **dict.fromkeys(
        ("revert", "undo"), lambda change: fill(_("Undo an earlier change of {object}"), object=change.target)
    ),
}

_NEVER_DETAILED: Final = frozenset(
    "distinguishedname objectclass objectcategory cn name ou isdeleted samaccounttype".split()
)
"""The headline has these, or they do not interest people."""
LOST_BY_DELETION: Final = frozenset(
    "samaccountname title department description mail member memberof managedby manager".split()
)
"""Of a deleted object's attributes, those by which people know it."""


def _details(change: ChangeFacts) -> Iterable[Detail]:
    if change.action in RUN_ACTIONS:
        return  # its changes are accounts, not attributes
    for each in change.changes:
        name = each.attribute.lower()
        if name in _NEVER_DETAILED and not (name == "distinguishedname" and change.action in ("revert", "undo")):
            continue
        if change.action == "delete" and name not in LOST_BY_DELETION:
            continue
        if name == "samaccountname" and change.action == "create" and each.after == (change.target.account_name,):
            continue
        yield from (
            Detail(each.attribute, label, text)
            for label, text in describe_values(
                each, change.named, label=_label(change, each), of_whole=change.action in ("create", "delete")
            )
        )


def _label(change: ChangeFacts, each: AttributeChange) -> str:
    """The label of an attribute, or of a member of the gateway's own tables, which have names in camel case."""
    label = label_of(each.attribute)
    is_own = not change.target.place
    return capitalized(noun_label(label)) if is_own and label == each.attribute else label


def _listed_labels(changes: Iterable[tuple[ChangeFacts, AttributeChange]]) -> str:
    """`title`, `title and mail`, `title, mail and 3 more attributes`; empty without attributes."""
    labels = list(dict.fromkeys(in_sentence(_label(*each)) for each in changes))
    return plain_text(join_names(labels, _MAX_NAMES, _("{names} and {count} more attributes"), _("{names} and {last}")))


_OWN_TABLES: Final = {"api-keys": "API key", "people": "person", "directories": "directory connection"}


def kind_words(kind: str, count: int = 1) -> str:
    """The word for `count` objects of a kind, or for rows of one of the gateway's own tables by its resource."""
    if not kind or kind in set(Kind):
        declared = KINDS[Kind(kind or Kind.OBJECT)]
        return translated(declared.singular if count == 1 else declared.many)
    word = _OWN_TABLES.get(kind) or humanize(kind).removesuffix("s")
    return translate_label(word if count == 1 else "people" if word == "person" else f"{word}s")


def resource_words(resource: str, count: int) -> str:
    """The word for `count` objects of a resource."""
    declared = RESOURCES.get(resource) or RESOURCES["objects"]
    return kind_words(declared.kind, count)


def _target_with_kind(change: ChangeFacts) -> Phrase:
    """`the user Ada Lovelace`."""
    if not change.kind or change.kind == "object":
        return (change.target,)
    return fill(_("the {kind} {object}"), kind=kind_words(change.kind), object=change.target)


def describe_changes(changes: Sequence[ChangeFacts], count: int) -> str:
    """One sentence for `count` changes, of which `changes` are some: `Change department of 200 users`."""
    actions = {change.action for change in changes}
    kinds = {change.kind for change in changes}
    if len(actions) != 1:
        names = ", ".join(sorted(noun_label(action) for action in actions))
        return _("{count} changes: {actions}").format(count=count, actions=names)
    action = actions.pop()
    objects = f"{count} {kind_words(kinds.pop() if len(kinds) == 1 else 'object', count)}"
    if action == "update":
        attributes = _listed_labels((one, each) for one in changes for each in one.changes)
        if not attributes:
            return _("Change {object}").format(object=objects)
        return _("Change {attributes} of {object}").format(attributes=attributes, object=objects)
    return operation_words(changes[0].operation, objects)
