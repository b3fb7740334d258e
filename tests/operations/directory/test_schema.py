"""What the schema says of attributes, as the front door answers it."""

from tests.support.cast import Integration, make_integration


def described(integration: Integration, query: str) -> dict[str, dict]:
    answer = integration.get(f"/api/ad/schema/attributes?{query}")
    assert answer.status == 200, answer.body
    assert answer.body["nextCursor"] is None
    assert answer.body["total"] == len(answer.body["items"])
    return {item["name"]: item for item in answer.body["items"]}


def test_it_works(integration: Integration) -> None:
    found = described(integration, "names=MAIL,proxyAddresses,thumbnailPhoto,manager,memberOf,pwdLastSet,whenCreated")
    assert found["mail"] == {"name": "mail", "type": "text", "singleValued": True, "writable": True}
    assert found["proxyAddresses"]["singleValued"] is False
    assert found["thumbnailPhoto"]["type"] == "binary"
    assert found["manager"]["type"] == "distinguishedName"
    assert found["memberOf"]["writable"] is False
    assert found["pwdLastSet"]["type"] == found["whenCreated"]["type"] == "time"
    assert len(found) == 7


def test_each_type_is_told(integration: Integration) -> None:
    names = {"uSNChanged": "integer", "adminCount": "integer", "isDeleted": "boolean", "objectSid": "sid"}
    names |= {"objectGUID": "guid", "nTMixedDomain": "integer", "objectClass": "text", "createTimeStamp": "time"}
    found = described(integration, f"names={','.join(names)}")
    assert {name: item["type"] for name, item in found.items()} == names


def test_all_are_listed_but_those_that_nobody_may_read(integration: Integration) -> None:
    found = described(integration, "")
    assert len(found) > 1000
    assert list(found) == sorted(found, key=str.lower)
    assert not found.keys() & {"unicodePwd", "userPassword", "supplementalCredentials", "nTSecurityDescriptor"}


def test_classes_confine_what_is_listed(integration: Integration) -> None:
    of_units = described(integration, "classes=organizationalUnit")
    assert {"ou", "street", "gPLink", "whenCreated"} <= of_units.keys()
    assert not of_units.keys() & {"sAMAccountName", "member"}
    assert described(integration, "classes=organizationalUnit&names=ou,member").keys() == {"ou"}


def test_what_names_a_class_is_not_written_there(integration: Integration) -> None:
    assert described(integration, "classes=top,organizationalUnit&names=ou")["ou"]["writable"] is False
    assert described(integration, "classes=user&names=ou")["ou"]["writable"] is True


def test_they_are_found_by_what_people_call_them(integration: Integration) -> None:
    assert described(integration, "q=Employee+ID").keys() == {"employeeID"}
    assert {"employeeID", "employeeType"} <= described(integration, "q=employee&classes=user").keys()
    assert described(integration, "q=shoeSize") == {}
    assert integration.get("/api/ad/schema/attributes?q=").status == 400


def test_refusals(integration: Integration) -> None:
    unknown = integration.get("/api/ad/schema/attributes?names=mail,shoeSize")
    assert (unknown.status, unknown.code) == (400, "AD.Attributes.Unknown")
    assert unknown.body["errors"][0]["parameter"] == "names"
    secret = integration.get("/api/ad/schema/attributes?names=unicodePwd")
    assert (secret.status, secret.code) == (400, "AD.Attributes.NotReadable")
    without = make_integration(integration.key.links.get().connection, may=["directory.run_savedfilter"])
    assert without.get("/api/ad/schema/attributes").status == 403
