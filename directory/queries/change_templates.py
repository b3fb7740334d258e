"""Templates for who joins, moves or leaves: what one may hold, and what its objects are called now."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from django.db.models import QuerySet

from active_directory import Entry, is_credential
from core.call import Call
from core.errors import Forbidden, InvalidRequest, NotFound
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object, find_parent, is_within_any, parse_reference, scope_bases
from directory.lookup.visibility import Visibility, may_see_confidential, visibility_of
from directory.models.change_templates import ChangeTemplate
from directory.shapes.attribute_updates import pointer
from directory.shapes.kinds import RESOURCES
from directory.shapes.placeholders import only_placeholder
from directory.shapes.record import select

_BY_OTHER_WAYS = frozenset({"member", "memberof", "useraccountcontrol", "distinguishedname", "cn", "name"})


def templates_of(call: Call) -> QuerySet[ChangeTemplate]:
    """The templates of the call's directory; inside scopes none whose values name objects outside."""
    assert call.directory is not None
    rows = ChangeTemplate.objects.filter(connection_id=call.directory.id)
    if not call.scopes:
        return rows
    visibility = visibility_of(call)
    return rows.filter(pk__in=[row.pk for row in rows if _names_only_known(row.attributes, visibility)])


def _names_only_known(attributes: Mapping[str, Sequence[str]], visibility: Visibility) -> bool:
    return all(
        only_placeholder(value) is not None or visibility.can_see_value(name, value)
        for name, values in attributes.items()
        if visibility.is_reference(name)
        for value in values
    )


def find_template(call: Call, id: UUID) -> ChangeTemplate:
    """A template of the call's directory; raises NotFound."""
    row = templates_of(call).filter(id=id).first()
    if row is None:
        raise NotFound
    return row


def find_given_parent(call: Call, text: str) -> Entry:
    """The place that a body names; raises InvalidRequest, ObjectNotFound or Forbidden."""
    return find_parent(call, parse_reference(text, pointer="#/parent"))


def find_given_groups(call: Call, member: str, texts: Sequence[str]) -> list[Entry]:
    """The groups that a member of the body names, each once; raises InvalidRequest, ObjectNotFound or Forbidden."""
    found: dict[UUID, Entry] = {}
    for index, text in enumerate(texts):
        where = pointer(member, str(index))
        reference = parse_reference(text, pointer=where)
        try:
            group = find_object(call, reference, kinds=RESOURCES["groups"].kinds)
        except errors.ObjectNotFound:
            raise errors.ObjectNotFound.naming(message("there is no group {text}", text=text), pointer=where) from None
        found.setdefault(group.guid, group)
    return list(found.values())


def require_attributes(call: Call, attributes: Mapping[str, Sequence[str]]) -> None:
    """Refuse names that no template can set, and values that name objects outside the caller's scopes.

    Raises AttributeUnknown, AttributeNotReadable, InvalidRequest or Forbidden.
    """
    schema = client_of(call).schema
    known: set[str] = set()
    for name in attributes:
        where = pointer("attributes", name)
        if schema.attribute(name) is None:
            raise errors.AttributeUnknown.naming(
                message("{name} is no attribute of the directory's schema", name=name), pointer=where
            )
        if is_credential(name) or name.lower() in _BY_OTHER_WAYS:
            raise InvalidRequest.naming(
                message("{name} is nothing that a template could set", name=name), pointer=where
            )
        if name.lower() in known:
            raise InvalidRequest.naming(message("{name} is there twice", name=name), pointer=where)
        known.add(name.lower())
    select(schema, list(attributes), RESOURCES["users"].kinds, confidential=may_see_confidential(call))
    if call.scopes and not _names_only_known(attributes, visibility_of(call)):
        raise Forbidden


def visible_names(call: Call, rows: Iterable[ChangeTemplate]) -> dict[UUID, str]:
    """What the templates' places and groups are called now, of those that are there and that the caller may see."""
    if not call.may("directory.read_object"):
        return {}
    wanted = {
        guid
        for row in rows
        for guid in (row.parent_guid, *(UUID(group["id"]) for group in (*row.joins, *row.leaves)))
        if guid is not None
    }
    if not wanted:
        return {}
    bases = scope_bases(call)
    found = client_of(call).read_many(wanted, ("objectGUID",))
    return {guid: entry.dn for guid, entry in found.items() if bases is None or is_within_any(entry.dn, bases)}
