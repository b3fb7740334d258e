"""Brings the gateway's own tables to what a file declares, by the operations that the console uses.

What is there already is compared first, so that nothing is done twice; what the file does not name stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Model

from active_directory import DistinguishedName, InvalidValue
from audit.model_changes.descriptions import Changed, find_audited_model
from audit.model_changes.recording import recorded
from audit.webhooks.admin import EndpointForm
from audit.webhooks.models import WebhookEndpoint
from core.errors import Conflict, FieldError, InvalidRequest, invalid_member
from core.operation import find_operation
from core.shapes import Body
from core.versions import lock_record
from directory.models import DirectoryConnection
from gateway.pipeline.together import Together
from keys.models import ApiKey, Role
from keys.permissions.presets import find_preset
from operations.management.declarations import (
    Declarations,
    DeclaredDirectory,
    DeclaredGroup,
    DeclaredKey,
    DeclaredRole,
    DeclaredWebhook,
)

_DESTINATION: Final = ("urls", "startTls", "caCertificate", "bindDn")
"""What decides where a connection's password is sent: `directories.update` takes them with the password alone."""


class Applier:
    """Applies declarations inside the caller's transaction.

    `place` names what is being looked at, for messages. `secrets` are the values made on the way, by section and name.
    """

    def __init__(self, together: Together) -> None:
        self._together = together
        self.place = ""
        self.secrets: dict[str, dict[str, dict[str, Any]]] = {"keys": {}, "webhooks": {}}

    def apply(self, declared: Declarations) -> None:
        """Add and change what differs, in the order in which one thing names another; raises GatewayError."""
        lock_record("declarations", "apply")
        steps: dict[str, Any] = {
            "directories": self._apply_directory,
            "roles": self._apply_role,
            "groups": self._apply_group,
            "keys": self._apply_key,
            "webhooks": self._apply_webhook,
        }
        for section, apply_one in steps.items():
            for name, item in getattr(declared, section).items():
                self.place = f'{section}."{name}"'
                apply_one(item)
        self.place = ""

    def _apply_directory(self, item: DeclaredDirectory) -> None:
        row = DirectoryConnection.objects.filter(name=item.name).first()
        document = _json(item, "bind_password", "ca_certificate")
        document["caCertificate"] = item.ca_certificate.read("caCertificate") if item.ca_certificate else None
        if row is None:
            self._together.perform("directories.create", body=document | _password(item))
            return
        # Once the gateway has changed the password of its account, the file's is outdated.
        if row.rotated_at is None:
            kept = self._read("directories", row)
            moves = any(document[name] != kept[name] for name in _DESTINATION)
            password = _password(item)
            if moves or row.bind_password != password["bindPassword"]:
                document |= password
        self._bring("directories", row, document)

    def _apply_role(self, item: DeclaredRole) -> None:
        document = _json(item, "preset")
        if item.preset is not None and (preset := find_preset(item.preset)) is not None:
            document["permissions"] = sorted(preset.for_role.union(document["permissions"]))
        self._bring("roles", Role.objects.filter(name=item.name).first(), document)

    def _apply_group(self, item: DeclaredGroup) -> None:
        groups = [
            {"directory": _directory_id(each.directory, f"directoryGroups/{index}/directory"), "group": each.group}
            for index, each in enumerate(item.directory_groups)
        ]
        document = _json(item) | {"directoryGroups": groups}
        self._bring("permission-groups", Group.objects.filter(name=item.name).first(), document)

    def _apply_key(self, item: DeclaredKey) -> None:
        role = Role.objects.filter(name=item.role).first()
        if role is None:
            raise invalid_member("role", f"there is no role called {item.role}")
        wanted = {_directory_id(name, f"directories/{at}") for at, name in enumerate(item.directories)}
        document = _json(item, "directories") | {"role": str(role.pk)}
        key = self._bring("api-keys", _find_key(item), document)
        linked = {link["directory"]: link["clientId"] for link in key["links"]}
        for client_id in (linked[directory] for directory in linked if directory not in wanted):
            self._together.perform("api-keys.delete-link", id=key["id"], clientId=client_id)
        made = [
            self._together.perform("api-keys.create-link", id=key["id"], body={"directory": directory})
            for directory in sorted(wanted - linked.keys())
        ]
        if "value" in key:
            client_ids = {link["directoryName"]: link["clientId"] for link in made}
            self.secrets["keys"][item.name] = {"value": key["value"], "clientIds": client_ids}

    def _apply_webhook(self, item: DeclaredWebhook) -> None:
        """The back office is the console of webhooks: its form checks them."""
        row = WebhookEndpoint.objects.filter(name=item.name).first()
        form = EndpointForm(item.model_dump(), instance=row)
        if not form.is_valid():
            errors = [
                FieldError(InvalidRequest.code, str(message), pointer=f"#/{name}")
                for name, messages in form.errors.items()
                for message in messages
            ]
            raise InvalidRequest(errors=errors)
        if row is not None and not form.has_changed():
            return
        with recorded(self._together.call) as administration:
            if row is not None:
                administration.watch_row(row)
            saved = form.save()
            if row is None:
                administration.note_new_row(saved)
                self.secrets["webhooks"][item.name] = {"secret": saved.secret}
        self._together.made += administration.made

    def _bring(self, resource: str, row: Model | None, document: Mapping[str, Any]) -> Any:
        """Create what is not there, or change the members that differ; its record."""
        if row is None:
            return self._together.perform(f"{resource}.create", body=document)
        record = self._read(resource, row)
        different = {name: value for name, value in document.items() if not _is_same(name, value, record)}
        if not different:
            return record
        return self._together.perform(f"{resource}.update", id=record["id"], body=different)

    def _read(self, resource: str, row: Model) -> Any:
        id = find_audited_model(resource).id_of(row)
        return find_operation(f"{resource}.read").function(self._together.call, id=id)


def _json(item: Body, *without: str) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude=set(without))


def _password(item: DeclaredDirectory) -> dict[str, str]:
    return {"bindPassword": item.bind_password.read("bindPassword")}


def _directory_id(name: str, member: str) -> str:
    row = DirectoryConnection.objects.filter(name=name).first()
    if row is None:
        raise invalid_member(member, f"there is no directory connection called {name}")
    return str(row.pk)


def _find_key(item: DeclaredKey) -> ApiKey | None:
    """The one key of that name and owner; raises Conflict for several, and for one that was revoked for good."""
    keys = ApiKey.objects.filter(name=item.name, owner__username=item.owner)
    usable = list(keys.filter(revoked_at__isnull=True))
    if len(usable) > 1:
        raise Conflict(f"{item.owner} has several keys of this name.")
    if not usable and keys.exists():
        raise Conflict("The key was revoked. Delete it, or take it out of the file.")
    return usable[0] if usable else None


def _is_same(name: str, wanted: Any, record: Mapping[str, Any]) -> bool:
    """Whether a member of a body says what the record says; the order of permissions, scopes and groups is none."""
    match name:
        case "permissions":
            return set(wanted) == set(record[name])
        case "scopes":
            return _are_same_objects(wanted, record["scopeObjects"])
        case "directoryGroups":
            directories = {item["directory"] for item in wanted} | {item["directory"] for item in record[name]}
            return all(
                _are_same_objects(
                    [item["group"] for item in wanted if item["directory"] == directory],
                    [item for item in record[name] if item["directory"] == directory],
                )
                for directory in directories
            )
        case _:
            return bool(wanted == record.get(name))


def _are_same_objects(texts: Sequence[str], kept: Iterable[Mapping[str, str]]) -> bool:
    known = [(UUID(item["id"]), _as_name(item["distinguishedName"])) for item in kept]
    given = {_as_name(text) for text in texts}
    return len(given) == len(known) and all(given & set(names) for names in known)


def _as_name(text: str) -> UUID | DistinguishedName | str:
    """What a reference is compared by, however it is spelt."""
    try:
        return UUID(text.strip())
    except ValueError:
        pass
    try:
        return DistinguishedName.parse(text.strip())
    except InvalidValue:
        return text


def merged(made: Iterable[Changed]) -> list[Changed]:
    """One change for each row: from what it was first to what it is now."""
    rows: dict[tuple[str, UUID], Changed] = {}
    for item in made:
        key = (item.table.resource, item.id)
        before = rows[key].before if key in rows else item.before
        rows[key] = Changed(table=item.table, id=item.id, before=before, after=item.after)
    return [item for item in rows.values() if item.changes]


def find_undeclared(declared: Declarations) -> list[str]:
    """What is there and not in the file, by its place in one."""
    keys = ApiKey.objects.filter(revoked_at__isnull=True).values_list("name", "owner__username").order_by("name")
    known = {(key.name, key.owner) for key in declared.keys.values()}
    tables: tuple[tuple[str, type[Model]], ...] = (
        ("directories", DirectoryConnection),
        ("roles", Role),
        ("groups", Group),
        ("webhooks", WebhookEndpoint),
    )
    others = [
        f'{section}."{name}"'
        for section, model in tables
        for name in model._default_manager.order_by("name").values_list("name", flat=True)
        if name not in getattr(declared, section)
    ]
    return others + [f'keys."{name}" of {owner}' for name, owner in keys if (name, owner) not in known]
