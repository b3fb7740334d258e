"""Attribute updates, checked against the schema and made into one LDAP modify.

Nothing here reads from a directory: callers check whether the objects that values refer to exist, and who may do it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from active_directory import (
    AttributeType,
    DistinguishedName,
    Entry,
    Modification,
    Schema,
    Syntax,
    comparable,
    decode,
    encode,
    fold_case,
    is_credential,
)
from active_directory import InvalidValue as UnfitValue
from core.text.messages import message
from directory import errors
from directory.shapes.inputs import AttributeUpdates, named_updates, pointer, require_consistency
from directory.shapes.kinds import Kind
from directory.shapes.proposal import AttributeChange, shown_values
from directory.shapes.value_rules import (
    MAINTAINED_BY_DIRECTORY,
    NAMED_BY,
    NAMING,
    SAM_KINDS,
    SINGLE_VALUED_ON_SAM_OBJECTS,
    value_problem,
)

_CASE_IGNORED = frozenset({Syntax.UNICODE_STRING, Syntax.CASE_IGNORE_STRING})
_SPACES_IGNORED = _CASE_IGNORED | {Syntax.NUMERIC_STRING}
_NOT_WRITABLE = MAINTAINED_BY_DIRECTORY | NAMING | {"ntsecuritydescriptor"}
# Writing these has side effects in the SAM. Windows documents replacing them, not deleting the old value as a guard.
_UNGUARDED = frozenset({"pwdlastset", "lockouttime"})
_NOT_SET = "is not set as an attribute"
_MAINTAINED = "is maintained by the directory"


@dataclass(frozen=True, slots=True)
class Step:
    """One attribute of one update, checked against the schema and encoded; `where` is its JSON pointer."""

    update: str
    attribute: AttributeType
    values: tuple[bytes, ...]
    where: str

    @property
    def name(self) -> str:
        return self.attribute.name.lower()


@dataclass(slots=True)
class Delta:
    """The modifications that are needed, and what they change. Empty when everything is as requested already.

    `values` are all raw values before and after, by lower-case attribute name.
    """

    modifications: list[Modification] = field(default_factory=list)
    changes: list[AttributeChange] = field(default_factory=list)
    values: dict[str, tuple[Sequence[bytes], Sequence[bytes]]] = field(default_factory=dict)


def parse_updates(updates: AttributeUpdates, schema: Schema, *, kind: Kind, new: Collection[str] = ()) -> list[Step]:
    """Check updates against the schema and encode their values, without reading an object.

    `new` are the classes of an object to be created. Raises AttributesConflict, AttributeUnknown,
    AttributeNotWritable, AttributeSingleValued or InvalidValue, each naming the member of the body.
    """
    require_consistency(updates)
    steps = []
    for update_name, update in named_updates(updates):
        for name, values in update.items():
            where = pointer(update_name, name)
            attribute = _writable(schema, name, where, kind, new)
            encoded = tuple(dict.fromkeys(_encoded(attribute, values, where)))
            if update_name != "remove":
                _require_cardinality(attribute, kind, encoded, where)
            steps.append(Step(update_name, attribute, encoded, where))
    for index, name in enumerate(updates.clear):
        where = pointer("clear", str(index))
        steps.append(Step("replace", _writable(schema, name, where, kind, new), (), where))
    return steps


def require_sensible_values(steps: Sequence[Step], *, kind: Kind, entry: Entry | None) -> None:
    """Refuse values that AD would accept and misuse on an object of this kind; `entry` is None for a new one.

    Raises InvalidValue, or AttributeNotWritable for the attribute that the entry is named by.
    """
    named_by = "" if entry is None else DistinguishedName.parse(entry.dn).rdn_attribute.lower()
    for step in steps:
        if step.name == named_by:
            raise errors.AttributeNotWritable.naming(
                message("{name} {not_set}", name=step.attribute.name, not_set=_NOT_SET), pointer=step.where
            )
        if step.update == "remove":
            continue
        current = None if entry is None else entry.text(step.attribute.name)
        for value in step.values:
            text = value.decode("utf-8", "surrogateescape")
            if complaint := value_problem(step.name, text, kind=kind, current=current):
                raise errors.InvalidValue.naming(
                    message("{name} {complaint}", name=step.attribute.name, complaint=complaint), pointer=step.where
                )


def delta_of(steps: Sequence[Step], entry: Entry, *, kind: Kind) -> Delta:
    """The modify that turns an entry into what the steps ask for.

    It removes and adds single values. Each removed value guards the modify, which fails as a whole when the value is
    gone. Values that the updates do not name stay, even ones that others add in the meantime.
    """
    delta = Delta()
    for attribute, after in _resulting_values(steps, entry, kind):
        append_difference(delta, attribute, entry.values(attribute.name), after)
    return delta


def append_difference(delta: Delta, attribute: AttributeType, before: Sequence[bytes], after: Sequence[bytes]) -> None:
    """Add to a delta what changes an attribute from some values to others; nothing when they mean the same."""
    kept, wanted = set(before), set(after)
    removed = tuple(value for value in before if value not in wanted)
    added = tuple(value for value in after if value not in kept)
    if decode(attribute, removed) == decode(attribute, added):  # nothing either way, or both forms of "never"
        return
    delta.values[attribute.name.lower()] = (before, after)
    if attribute.name.lower() in _UNGUARDED:
        delta.modifications.append(Modification("replace", attribute.name, tuple(after)))
    else:
        # Samba stores `a` beside `A`, but removes the first of them whichever is named. So both are removed, and the
        # other one is added again.
        gone = {_confusable_key(attribute, value) for value in removed}
        again = tuple(value for value in before if value in wanted and _confusable_key(attribute, value) in gone)
        if removed:
            delta.modifications.append(Modification("delete", attribute.name, removed + again))
        if added or again:
            delta.modifications.append(Modification("add", attribute.name, again + added))
    stay = None
    if attribute.is_linked:  # a membership is recorded as what was added and removed (docs/api.md#log-records)
        stay = len(before) - len(removed)
        before, after = removed, added
    was, becomes = (shown_values(attribute, decode(attribute, values)) for values in (before, after))
    delta.changes.append(AttributeChange(attribute.name, was, becomes, kept=stay))


def initial_values(steps: Sequence[Step], *, kind: Kind) -> Iterator[tuple[AttributeType, tuple[bytes, ...]]]:
    """The attributes of a new object with their values, each once."""
    for attribute, values in _resulting_values(steps, Entry("", {}), kind):
        if values:
            yield attribute, tuple(values)


def _resulting_values(steps: Sequence[Step], entry: Entry, kind: Kind) -> Iterator[tuple[AttributeType, list[bytes]]]:
    """Each attribute with its values after all steps."""
    by_attribute: dict[str, list[Step]] = {}
    for step in steps:
        by_attribute.setdefault(step.name, []).append(step)
    for steps_on_one in by_attribute.values():
        attribute = steps_on_one[0].attribute
        after = _apply_steps(steps_on_one, entry.values(attribute.name))
        _require_cardinality(attribute, kind, after, steps_on_one[-1].where)
        yield attribute, after


def _require_cardinality(attribute: AttributeType, kind: Kind, values: Sequence[bytes], where: str) -> None:
    if len(values) > 1 and is_single_valued(attribute, kind):
        detail = message("{name} can have one value only", name=attribute.name)
        raise errors.AttributeSingleValued.naming(detail, pointer=where)


def is_single_valued(attribute: AttributeType, kind: Kind) -> bool:
    return attribute.single_valued or (kind in SAM_KINDS and attribute.name.lower() in SINGLE_VALUED_ON_SAM_OBJECTS)


def comparison_key(attribute: AttributeType, value: bytes) -> object:
    """A key that is equal for values which AD considers equal in the attribute's syntax ([MS-ADTS] 3.1.1.2.2.4)."""
    if attribute.syntax in _CASE_IGNORED:
        return fold_case(value.decode("utf-8", "replace"))
    if attribute.syntax is Syntax.DN:
        try:
            return DistinguishedName.parse(value.decode())
        except (UnfitValue, UnicodeDecodeError):
            return value
    return value


def _confusable_key(attribute: AttributeType, value: bytes) -> object:
    """A key that is equal for values which Samba mistakes for one another on removal: it also ignores extra spaces."""
    return comparable(value.decode("utf-8", "replace")) if attribute.syntax in _SPACES_IGNORED else value


def referenced_names(steps: Sequence[Step]) -> dict[DistinguishedName, Step]:
    """The objects that new values refer to. Raises InvalidValue for a reference that is no distinguished name."""
    found = {}
    for step in steps:
        if step.attribute.syntax is Syntax.DN and step.update != "remove":
            for value in step.values:
                text = value.decode()
                if text.startswith("<"):
                    detail = message("{name} takes distinguished names", name=step.attribute.name)
                    raise errors.InvalidValue.naming(detail, pointer=step.where)
                found[DistinguishedName.parse(text)] = step
    return found


def _apply_steps(steps: Sequence[Step], before: Sequence[bytes]) -> list[bytes]:
    """The values of one attribute after all steps. Removals come first, so that a value can change its case.

    A directory may hold several values that compare as equal (Samba stores `a` beside `A`). They stay unless a step
    names them, and an exact match is removed alone. The directory decides whether it accepts such values together.
    """
    attribute = steps[0].attribute
    values = _grouped(attribute, before)
    present = dict(values)
    named = {
        update: [value for step in steps if step.update == update for value in step.values]
        for update in ("remove", "add")
    }
    for value in named["remove"]:
        key = comparison_key(attribute, value)
        held = values.get(key, [])
        values[key] = [other for other in held if other != value] if value in held else []
    for step in steps:
        if step.update == "replace":
            # An exact replacement: what differs in case only is a change.
            values = _grouped(attribute, step.values)
    remaining = {key for key, held in values.items() if held}
    for key, added in _grouped(attribute, named["add"]).items():
        if key not in remaining:
            values[key] = added
    if attribute.syntax is Syntax.DN:  # the same object in another spelling is no change, and one value
        values = {key: present.get(key, held[:1]) for key, held in values.items() if held}
    return [value for held in values.values() for value in held]


def _grouped(attribute: AttributeType, values: Sequence[bytes]) -> dict[object, list[bytes]]:
    """The values by comparison key, each once."""
    found: dict[object, list[bytes]] = {}
    for value in dict.fromkeys(values):
        found.setdefault(comparison_key(attribute, value), []).append(value)
    return found


def _writable(schema: Schema, name: str, where: str, kind: Kind, new: Collection[str]) -> AttributeType:
    attribute = None if ";" in name else schema.attribute(name)
    if is_credential(name):
        raise errors.AttributeNotWritable.naming(
            message("{name} holds a secret; passwords have operations of their own", name=name), pointer=where
        )
    if attribute is None:
        raise errors.AttributeUnknown.naming(
            message("{name!r} is no attribute of the directory's schema", name=name), pointer=where
        )
    complaint = unwritable_reason(attribute, kind)
    if complaint == _MAINTAINED and attribute.name.lower() in schema.given_at_creation:
        given = attribute.name.lower() in schema.required_attributes(new)
        complaint = None if given else "can be set only when an object of a class that requires it is created"
    if complaint:
        raise errors.AttributeNotWritable.naming(
            message("{name} {complaint}", name=attribute.name, complaint=complaint), pointer=where
        )
    return attribute


def unwritable_reason(attribute: AttributeType, kind: Kind) -> str | None:
    """Why no update may write an attribute on objects of this kind, or None."""
    name = attribute.name.lower()
    if name in _NOT_WRITABLE or name == NAMED_BY.get(kind):
        return _NOT_SET
    if attribute.constructed or attribute.system_only or attribute.is_back_link:
        return _MAINTAINED
    return None


def _encoded(attribute: AttributeType, values: Sequence[str], where: str) -> list[bytes]:
    try:
        return encode(attribute, values)
    except UnfitValue as error:
        raise errors.InvalidValue.naming(
            message("{name}: {message}", name=attribute.name, message=error.message), pointer=where
        ) from None
