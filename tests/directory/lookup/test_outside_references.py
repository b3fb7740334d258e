"""Whatever identifies an object outside, in whichever form: a confined caller neither sees, finds, sets nor removes it,
and confined approvers do not decide it. Every attribute of the domain's schema is asked about.
"""

import base64
import json
import re
from collections.abc import Sequence
from urllib.parse import quote
from uuid import UUID, uuid4

import ldap
import pytest

from active_directory import AttributeType, Schema, Syntax, is_credential
from approvals.models import ChangeRequest
from core.call import SupervisionLevel, Surface
from core.operation import Effect, operations
from directory.lookup.connection import get_client
from directory.lookup.visibility import Visibility
from directory.models import DirectoryConnection
from directory.shapes.object_references import ReferenceForm, reference_forms
from lab.directory import Directory, random_name
from tests.contracts.test_confinement import QUERIES
from tests.directory.lookup.test_guesses import alike
from tests.directory.lookup.test_visibility import found, search
from tests.support.cast import Console, Integration, make_confined, make_integration
from tests.support.configuration import Configure
from tests.support.descriptors import pack

_SOUNDS_LIKE_A_REFERENCE = ("sid", "guid", "dn", "rid", "owner", "reference", "objectid")
# What objects are themselves known by, here and elsewhere; what is the schema's, which is nobody's; counters; and names
# of people in words.
_IS_NONE = """
    objectSid objectGUID legacyExchangeDN cACertificateDN msDS-LastKnownRDN mS-DS-ConsistencyGuid fRSReplicaSetGUID
    fRSVersionGUID msDS-AzObjectGuid msFVE-RecoveryGuid msFVE-VolumeGuid netbootGUID remoteStorageGUID
    pKTGuid oMTGuid oMTIndxGuid volTableGUID volTableIdxGUID rpcNsObjectID msCOM-ObjectId msDS-ManagedPasswordPreviousId
    attributeSecurityGUID governsID rightsGuid schemaIDGUID msDS-OptionalFeatureGUID msDS-AzClassId msWMI-ScopeGuid
    cOMCLSID cOMClassID cOMTreatAsClassId serviceClassID ms-net-ieee-80211-GP-PolicyGUID ms-net-ieee-8023-GP-PolicyGUID
    nextRid rIDNextRID rid meetingOwner printOwner mS-SQL-RegisteredOwner
"""

_ADDED_AND_REMOVED = ("member", "manager", "managedBy", "seeAlso", "secretary", "primaryGroupID", "userWorkstations")


class Estate:
    """A unit to be confined to, with a group and an account in it, and the same outside."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.directory = directory
        self.inside, self.outside = (directory.add_unit(random_name(name), parent=unit) for name in ("in", "out"))
        self.unit_id = directory.guid(self.inside)
        self.user_id = directory.add_user(parent=self.inside)
        service = {"objectClass": "msDS-GroupManagedServiceAccount", "msDS-ManagedPasswordInterval": "30"}
        self.service_id = directory.add(
            f"CN=Service,{self.inside}", {**service, "sAMAccountName": random_name("s")[:12] + "$"}
        )
        self.user_dn = directory.dn(self.user_id)
        self.group_id = directory.add_group(parent=self.inside, members=[self.user_id])
        self.right, self.wrong, self.seen = (self._add(parent) for parent in (self.outside, self.outside, self.inside))
        name, sid = random_name("gone")[:12], self.right["sid"].rpartition("-")[0]
        self.absent = _identities(f"CN={name},{self.outside}", f"{sid}-987654321", str(uuid4()), name)

    def _add(self, parent: str) -> dict[str, str]:
        """How a new group with the account in it, and a computer, are identified."""
        directory, host = self.directory, random_name("pc")[:12]
        group = directory.add_group(parent=parent, members=[self.user_id])
        directory.add_computer(host, parent=parent, dNSHostName=f"{host}.example.test")
        return _identities(directory.dn(group), directory.sid(group), str(group), host)

    def value(self, attribute: AttributeType, form: ReferenceForm, of: dict[str, str]) -> str:
        """A value of an attribute that identifies one of these."""
        tag = "B:2:AB" if attribute.syntax is Syntax.DN_BINARY else "S:3:a:b"
        values = {
            ReferenceForm.NAME: of["dn"],
            ReferenceForm.TAGGED_NAME: f"{tag}:{of['dn']}",
            ReferenceForm.LINKS: f"[LDAP://{of['dn']};0]",
            ReferenceForm.SID: of["sid"],
            ReferenceForm.RELATIVE_ID: of["sid"].rpartition("-")[2],
            ReferenceForm.DESCRIPTOR: of["descriptor"],
            ReferenceForm.GUID: of["guid"],
            ReferenceForm.SERVICE: f"cifs/{of['host']}.example.test:445",
            ReferenceForm.COMPUTERS: f"{of['host']},{self.seen['host']}",
            ReferenceForm.OPAQUE: of["descriptor"] if attribute.syntax is Syntax.OCTET_STRING else of["guid"],
        }
        return values[form]


def _identities(dn: str, sid: str, guid: str, host: str) -> dict[str, str]:
    (descriptor,) = pack(f"O:BAD:(A;;GA;;;{sid})(A;;RC;;;SY)")
    return {"dn": dn, "sid": sid, "guid": guid, "host": host, "descriptor": base64.b64encode(descriptor).decode()}


def octets(attribute: AttributeType, form: ReferenceForm, value: str) -> bytes:
    """The value as the directory keeps it."""
    if form is ReferenceForm.GUID:
        return UUID(value).bytes_le
    return base64.b64decode(value) if form is ReferenceForm.DESCRIPTOR else value.encode()


@pytest.fixture
def estate(directory: Directory, organizational_unit: str) -> Estate:
    return Estate(directory, organizational_unit)


@pytest.fixture
def schema(connection: DirectoryConnection) -> Schema:
    return get_client(connection.pk).schema


@pytest.fixture
def confined(connection: DirectoryConnection, estate: Estate) -> Integration:
    return make_integration(connection, scopes=[estate.unit_id])


def references(schema: Schema) -> dict[str, tuple[AttributeType, ReferenceForm]]:
    """The attributes of the schema that identify others, by name."""
    known = ((schema.attribute(name), form) for name, form in reference_forms(schema).items())
    return {attribute.name: (attribute, form) for attribute, form in known if attribute is not None}


def test_the_table_knows_every_form(schema: Schema) -> None:
    """What has the syntax of a reference is one, and so is what sounds like one, unless it is looked at and none."""
    listed = references(schema)
    assert {form for _, form in listed.values()} == set(ReferenceForm)
    others = [attribute for attribute in schema.attributes.values() if attribute.name not in listed]
    referring = {Syntax.DN, Syntax.DN_BINARY, Syntax.DN_STRING, Syntax.SID, Syntax.SECURITY_DESCRIPTOR}
    assert {each.name for each in others if each.syntax in referring} == {
        *("distinguishedName", "objectCategory", "defaultObjectCategory"),
        *("objectSid", "securityIdentifier", "nTSecurityDescriptor"),
    }
    sounding = {each.name for each in others if each.name.lower().endswith(_SOUNDS_LIKE_A_REFERENCE)}
    assert sounding <= set(_IS_NONE.split())


def test_no_value_that_identifies_what_is_outside_is_seen(
    connection: DirectoryConnection, schema: Schema, estate: Estate
) -> None:
    client = get_client(connection.pk)
    visibility = Visibility.of(client, confidential=True, bases=(estate.inside,))
    for name, (attribute, form) in references(schema).items():
        right, absent, seen = (
            estate.value(attribute, form, each) for each in (estate.right, estate.absent, estate.seen)
        )
        for value in (right, absent):
            assert visibility.visible_texts(name, [value]) == [], name
            assert visibility.hides(name, [value]), name
            assert not visibility.can_see_filter_value(name, value), name
            assert not visibility.can_see_filter_value(name, octets(attribute, form, value)), name
        if form is not ReferenceForm.OPAQUE:
            assert visibility.visible_texts(name, [seen, right]) == [seen], name
            assert not visibility.hides(name, [seen]), name


def test_no_answer_shows_what_is_outside(
    confined: Integration, schema: Schema, estate: Estate, directory: Directory
) -> None:
    """Of every attribute that the objects take."""
    taken: set[str] = set()
    objects = {
        "users": estate.user_id,
        "groups": estate.group_id,
        "organization-units": estate.unit_id,
        "computers": directory.add_computer(parent=estate.inside),
        "objects": estate.service_id,
    }
    for resource, id in objects.items():
        held: dict[str, str] = {}
        # The group outside may not become somebody's desktop before it is their primary group.
        for name, (attribute, form) in sorted(references(schema).items(), key=lambda item: item[0] != "primaryGroupID"):
            value = estate.value(attribute, form, estate.right)
            if not (is_credential(name) or attribute.is_back_link) and takes(
                directory, id, name, octets(attribute, form, value)
            ):
                held[name] = value
        taken |= held.keys()
        names = quote(",".join(held))
        for path in (
            f"{resource}/{id}?attributes={names}",
            f"{resource}?base={quote(estate.inside)}&attributes={names}",
            f"{resource}?base={quote(estate.inside)}&attributes={names}&sort=-{next(iter(held))}",
        ):
            answer = confined.get(f"/api/ad/{path}")
            assert answer.status == 200, answer
            shown = next(item for item in answer.body.get("items", [answer.body]) if item["id"] == str(id))
            assert {name: shown["attributes"][name] for name in held} == {name: [] for name in held}, path
        preview = json.dumps(confined.delete(f"/api/ad/{resource}/{id}?dryRun=true").body)
        assert not [name for name, value in held.items() if json.dumps(value)[1:-1] in preview], resource
        for name in held:
            if name != "primaryGroupID":
                directory.modify(id, **{name: None})
    directory.modify(estate.user_id, primaryGroupID="513")
    forms = {form for name, (_, form) in references(schema).items() if name in taken}
    assert forms >= {
        ReferenceForm[name] for name in ("NAME", "RELATIVE_ID", "DESCRIPTOR", "SERVICE", "COMPUTERS", "LINKS")
    }
    assert len(taken) > 20


# Those of access control tell by whom it is held, wherever they are.
READS = [
    item
    for item in operations()
    if item.effect is Effect.READ and item.needs_directory and "directory.read_acl" not in item.permission
]


def test_no_read_tells_of_what_is_outside(
    connection: DirectoryConnection, estate: Estate, directory: Directory
) -> None:
    right = estate.right
    directory.modify(
        estate.user_id,
        primaryGroupID=right["sid"].rpartition("-")[2],
        userWorkstations=right["host"],
        manager=right["dn"],
        **{"msDS-AllowedToDelegateTo": f"cifs/{right['host']}.example.test"},
    )
    directory.modify(estate.service_id, **{"msDS-GroupMSAMembership": base64.b64decode(right["descriptor"])})
    objects = {"groups": estate.group_id, "organization-units": estate.unit_id}
    marks = [right[name].lower() for name in ("dn", "sid", "guid", "host")]

    def tellers(caller: Integration) -> set[str]:
        """The operations that tell of it, in any answer."""
        console, telling = Console(caller.key.owner), set()
        for operation in READS:
            id = objects.get(f"{operation.path}/".split("/")[1], estate.user_id)
            path = operation.path.replace("{id}", str(id))
            if operation.action == "read-by":
                path = path.replace("{identifier}/{value}", f"sid/{directory.sid(id)}")
            path += f"?dn={quote(estate.user_dn)}" if path.endswith("/by-dn") else QUERIES.get(operation.name, "")
            answer = caller.get(f"/api/{path}") if Surface.API in operation.surfaces else console.get(f"/rest/{path}")
            if any(mark in json.dumps(answer.body).lower() for mark in marks):
                telling.add(operation.name)
        return telling

    confined, unconfined = (
        tellers(make_confined("owner", connection, estate.unit_id)),
        tellers(make_integration(connection)),
    )
    directory.modify(estate.user_id, primaryGroupID="513")
    assert confined == set()
    assert {"users.read-sign-in-report", "service-accounts.search", "users.list-groups"} <= unconfined


def takes(directory: Directory, id: UUID, name: str, value: bytes | Sequence[bytes]) -> bool:
    try:
        directory.modify(id, **{name: value})
    except ldap.LDAPError:
        return False
    return True


def test_nothing_is_found_or_ordered_by_what_is_outside(
    confined: Integration, integration: Integration, schema: Schema, estate: Estate, directory: Directory
) -> None:
    relative_id = {name: of["sid"].rpartition("-")[2] for name, of in vars(estate).items() if isinstance(of, dict)}
    other = directory.add_user(parent=estate.inside)
    directory.modify(estate.user_id, primaryGroupID=relative_id["right"], userWorkstations=estate.right["host"])
    for text, seen_by_all in (
        ("(primaryGroupID={right})", {estate.user_id}),
        ("(primaryGroupID=0{right})", set()),
        ("(primaryGroupID>={right})", {estate.user_id}),
        ("(!(primaryGroupID={right}))", {other}),
        ("(primaryGroupID:1.2.840.113556.1.4.803:={right})", {estate.user_id}),
        ("(primaryGroupID=*)", {estate.user_id, other}),
        ("(userWorkstations={host})", {estate.user_id}),
        ("(userWorkstations=*{host}*)", {estate.user_id}),
        ("(userWorkstations=*)", {estate.user_id}),
    ):
        filter = text.format(**relative_id, host=estate.right["host"])
        assert found(search(integration, base=estate.inside, filter=filter)) >= seen_by_all, text
        assert found(search(confined, filter=filter)) == set(), text
    assert found(search(confined, filter="(!(primaryGroupID=*))")) == {estate.user_id, other}
    by_number = [
        [item["id"] for item in search(confined, sort=sort).body["items"]]
        for sort in ("primaryGroupID", "-primaryGroupID", "objectGUID")
    ]
    assert by_number[0] == by_number[1]

    # What is inside, they find.
    directory.modify(estate.user_id, primaryGroupID=relative_id["seen"])
    for text in ("(primaryGroupID={seen})", "(primaryGroupID=*)"):
        assert found(search(confined, filter=text.format(**relative_id))) == {estate.user_id}
    shown = confined.get(f"/api/ad/users/{estate.user_id}?attributes=primaryGroupID").body["attributes"]
    assert shown == {"primaryGroupID": [relative_id["seen"]]}
    directory.modify(estate.user_id, primaryGroupID="513")

    # And by no attribute of the schema are a right guess and a wrong one told apart.
    for name, (attribute, form) in references(schema).items():
        guesses = [estate.value(attribute, form, of) for of in (estate.right, estate.wrong, estate.absent)]
        answers = [search(confined, "objects", filter=f"({name}={escaped(guess)})") for guess in guesses]
        if answers[0].status == 200:
            assert not any(map(found, answers)), name
        else:
            assert {answer.code for answer in answers} == {answers[0].code}, name


def escaped(text: str) -> str:
    return "".join(f"\\{byte:02x}" if byte in b"\\*()\0" else chr(byte) for byte in text.encode())


@pytest.mark.parametrize("update", ["replace", "add", "remove"])
def test_no_reference_outside_is_written(
    update: str, confined: Integration, integration: Integration, schema: Schema, estate: Estate
) -> None:
    """Nor tried: whether it is there, and whether it was set before, makes no difference.

    Every attribute is replaced; values of each form and syntax are added and removed.
    """
    tried = references(schema)
    if update != "replace":
        kinds = {(form, attribute.syntax): name for name, (attribute, form) in sorted(tried.items(), reverse=True)}
        tried = {name: tried[name] for name in {*kinds.values(), *_ADDED_AND_REMOVED}}
    estate.directory.modify(estate.user_id, primaryGroupID=estate.right["sid"].rpartition("-")[2])
    refused = 0
    for name, (attribute, form) in tried.items():
        guesses = [estate.value(attribute, form, of) for of in (estate.right, estate.wrong, estate.absent)]
        path = f"/api/ad/users/{estate.user_id}"
        answers = [confined.patch(f"{path}?dryRun=true", {update: {name: guess}}) for guess in guesses]
        if answers[0].code in ("AD.Attributes.NotWritable", "AD.Attributes.InvalidValue"):
            assert {answer.code for answer in answers} == {answers[0].code}
            continue
        assert (answers[0].status, answers[0].code) == (403, "Auth.Forbidden"), name
        alike(integration, *answers)
        refused += 1
    estate.directory.modify(estate.user_id, primaryGroupID="513")
    assert refused > (60 if update == "replace" else len(_ADDED_AND_REMOVED))


def test_some_attributes_may_refer_to_what_is_outside(
    confined: Integration, estate: Estate, configure: Configure
) -> None:
    relative_id = estate.right["sid"].rpartition("-")[2]
    change = {"replace": {"primaryGroupID": relative_id, "manager": estate.right["dn"]}}
    path = f"/api/ad/users/{estate.user_id}"
    configure("Scopes", OutsideReferences=("primarygroupID",))
    assert confined.patch(path, change).status == 403
    configure("Scopes", OutsideReferences=("primarygroupID", "manager"))
    assert confined.patch(path, change).status == 200
    shown = confined.get(f"{path}?attributes=primaryGroupID,manager").body["attributes"]
    assert shown == {"primaryGroupID": [relative_id], "manager": [estate.right["dn"]]}
    assert found(search(confined, filter=f"(primaryGroupID={relative_id})")) == {estate.user_id}
    estate.directory.modify(estate.user_id, primaryGroupID="513")


def test_a_hidden_value_is_replaced_as_a_whole_unless_it_is_a_list(confined: Integration, estate: Estate) -> None:
    seen, path = estate.seen["sid"].rpartition("-")[2], f"/api/ad/users/{estate.user_id}"
    estate.directory.modify(
        estate.user_id, primaryGroupID=estate.right["sid"].rpartition("-")[2], userWorkstations=estate.right["host"]
    )
    assert confined.patch(path, {"replace": {"primaryGroupID": seen}}).status == 200
    assert confined.patch(path, {"replace": {"userWorkstations": estate.seen["host"]}}).status == 403
    assert confined.patch(path, {"clear": ["userWorkstations"]}).status == 403
    estate.directory.modify(estate.user_id, primaryGroupID="513", userWorkstations=None)
    assert confined.patch(path, {"replace": {"userWorkstations": estate.seen["host"]}}).status == 200


def test_confined_approvers_neither_see_nor_decide(
    connection: DirectoryConnection, schema: Schema, estate: Estate
) -> None:
    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    approver = Console(make_confined("owner", connection, estate.unit_id).key.owner)
    held: set[ReferenceForm] = set()
    paths = {"users": estate.user_id, "organization-units": estate.unit_id, "objects": estate.service_id}
    for name, (attribute, form) in references(schema).items():
        if form in held and form is not ReferenceForm.NAME:
            continue
        value = estate.value(attribute, form, estate.right)
        answers = (asking.patch(f"/api/ad/{kind}/{id}", {"replace": {name: value}}) for kind, id in paths.items())
        answer = next((answer for answer in answers if answer.status == 202), None)
        if answer is None:
            continue
        held.add(form)
        path = f"/rest/change-requests/{answer.body['changeRequest']['id']}"
        shown = approver.get(path)
        assert shown.status == 200, shown
        # A relative identifier is four digits, which also occur within identifiers and times.
        whole = rf"(?<!\w)(?<!\w[.:-]){re.escape(json.dumps(value)[1:-1])}(?!\w|[.:-]\w)"
        assert not re.search(whole, json.dumps(shown.body)), name
        request = ChangeRequest.objects.get(id=answer.body["changeRequest"]["id"])
        assert approver.post(f"{path}/approve", {"digest": request.digest}).status == 403, name
        assert approver.post(f"{path}/reject", {"comment": "No."}).status == 403, name
    assert held >= {
        ReferenceForm[name] for name in ("NAME", "RELATIVE_ID", "DESCRIPTOR", "SERVICE", "COMPUTERS", "LINKS")
    }
