"""Values in filters: read as records show them or as the directory keeps them, or refused."""

import pytest

from active_directory import FilterSyntax, InvalidValue, Schema, Syntax, incomparable_reason, parse_filter, read_values
from active_directory.schema import AttributeType, ClassCategory, ObjectClass

SYNTAXES = {
    "accountExpires": Syntax.LARGE_INTEGER,
    "maxPwdAge": Syntax.LARGE_INTEGER,
    "uSNChanged": Syntax.LARGE_INTEGER,
    "userAccountControl": Syntax.INTEGER,
    "whenCreated": Syntax.TIME,
    "isDeleted": Syntax.BOOLEAN,
    "objectSid": Syntax.SID,
    "objectGUID": Syntax.OCTET_STRING,
    "jpegPhoto": Syntax.OCTET_STRING,
    "memberOf": Syntax.DN,
    "wellKnownObjects": Syntax.DN_BINARY,
    "objectClass": Syntax.OID,
    "objectCategory": Syntax.DN,
    "description": Syntax.UNICODE_STRING,
    "acl": Syntax.SECURITY_DESCRIPTOR,
}
_NONE = frozenset[str]()
SCHEMA = Schema(
    {name.lower(): AttributeType(name, syntax, 0, "1.2.3", single_valued=True) for name, syntax in SYNTAXES.items()},
    {
        "person": ObjectClass(
            "person",
            "top",
            ClassCategory.STRUCTURAL,
            _NONE,
            _NONE,
            _NONE,
            _NONE,
            rdn_attribute="cn",
            schema_id_guid=None,
        )
    },
)
LAST = 2**63 - 1
GUID = "8e3f6a52-7d1b-4c0e-9a41-5b7f2c9d0e13"
OCTETS = r"\52\6a\3f\8e\1b\7d\0e\4c\9a\41\5b\7f\2c\9d\0e\13"
SID = r"\01\01\00\00\00\00\00\05\12\00\00\00"


def read(text: str) -> str:
    term = parse_filter(text)
    (name,) = term.attributes()
    attribute = SCHEMA.attribute(name)
    assert attribute is not None
    at = getattr(term, "at", 0)
    return str(read_values(term, attribute, SCHEMA, is_escaped=text[at:].startswith(("\\", "*\\"))))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("(accountExpires=2026-08-01T00:00:00Z)", "(accountExpires=134300160000000000)"),
        ("(accountExpires=2026-08-01T02:00:00+02:00)", "(accountExpires=134300160000000000)"),
        ("(accountExpires=2026-08-01T00:00:00.0000001Z)", "(accountExpires=134300160000000001)"),
        ("(accountExpires=20260801000000.0Z)", "(accountExpires=134300160000000000)"),
        ("(accountExpires=134300160000000000)", "(accountExpires=134300160000000000)"),
        ("(accountExpires>=1)", "(accountExpires>=1)"),
        ("(accountExpires=never)", f"(|(accountExpires=0)(accountExpires={LAST}))"),
        (
            "(accountExpires>=2026-08-01T00:00:00Z)",
            f"(&(accountExpires>=134300160000000000)(accountExpires<={LAST - 1}))",
        ),
        (
            "(accountExpires<=2026-08-01T00:00:00.00000009Z)",
            "(&(accountExpires>=1)(accountExpires<=134300160000000000))",
        ),
        (
            "(accountExpires>=2026-08-01T00:00:00.00000009Z)",
            f"(&(accountExpires>=134300160000000001)(accountExpires<={LAST - 1}))",
        ),
        ("(whenCreated=2026-08-01T00:00:00Z)", "(whenCreated=20260801000000.0Z)"),
        ("(whenCreated>=2026-07-31t19:30:00-04:30)", "(whenCreated>=20260801000000.0Z)"),
        ("(whenCreated>=20260801020000+0200)", "(whenCreated>=20260801000000.0Z)"),
        ("(whenCreated<=20260801000000Z)", "(whenCreated<=20260801000000.0Z)"),
        ("(whenCreated<=2026-12-31T23:59:59.999Z)", "(whenCreated<=20261231235959.0Z)"),
        ("(whenCreated>=2026-12-31T23:59:59.999Z)", "(whenCreated>=20270101000000.0Z)"),
        ("(maxPwdAge=P42D)", "(maxPwdAge=-36288000000000)"),
        ("(maxPwdAge=PT30M)", "(maxPwdAge=-18000000000)"),
        ("(maxPwdAge<=-36288000000000)", "(maxPwdAge<=-36288000000000)"),
        ("(uSNChanged>=0012)", "(uSNChanged>=12)"),
        ("(userAccountControl=2147483656)", "(userAccountControl=-2147483640)"),
        (
            "(userAccountControl:1.2.840.113556.1.4.803:=2147483648)",
            "(userAccountControl:1.2.840.113556.1.4.803:=2147483648)",
        ),
        ("(isDeleted=true)", "(isDeleted=TRUE)"),
        ("(objectSid=s-1-5-18)", f"(objectSid={SID})"),
        (f"(objectSid={SID})", f"(objectSid={SID})"),
        (f"(objectGUID={GUID.upper()})", f"(objectGUID={OCTETS})"),
        (f"(objectGUID={OCTETS})", f"(objectGUID={OCTETS})"),
        (r"(objectGUID=\52*)", "(objectGUID=R*)"),
        ("(jpegPhoto=/9j/)", r"(jpegPhoto=\ff\d8\ff)"),
        (r"(jpegPhoto=\41\42)", r"(jpegPhoto=\41\42)"),
        ("(memberOf=CN=Announcements,DC=corp)", "(memberOf=CN=Announcements,DC=corp)"),
        ("(memberOf:1.2.840.113556.1.4.1941:=CN=a,DC=b)", "(memberOf:1.2.840.113556.1.4.1941:=CN=a,DC=b)"),
        ("(wellKnownObjects=B:2:aa:CN=a,DC=b)", "(wellKnownObjects=B:2:aa:CN=a,DC=b)"),
        ("(objectClass=Person)", "(objectClass=Person)"),
        ("(objectClass=1.2.840.113556.1.5.9)", "(objectClass=1.2.840.113556.1.5.9)"),
        ("(objectCategory=person)", "(objectCategory=person)"),
        ("(objectCategory=CN=Person,CN=Schema)", "(objectCategory=CN=Person,CN=Schema)"),
        (r"(description=\28never\29)", r"(description=\28never\29)"),
        ("(description=*2026*)", "(description=*2026*)"),
        ("(accountExpires=*)", "(accountExpires=*)"),
    ],
)
def test_a_value_is_read_by_its_syntax(written: str, kept: str) -> None:
    assert read(written) == kept


@pytest.mark.parametrize(
    "text",
    [
        *("(accountExpires=soon)", "(accountExpires>=never)", "(accountExpires<=2026-08-01)", "(accountExpires=)"),
        *("(accountExpires=2026-02-30T00:00:00Z)", f"(accountExpires={LAST + 1})", "(accountExpires=P1D)"),
        *("(whenCreated=134300160000000000)", "(whenCreated=never)", "(whenCreated=2026-08-01T00:00:00.5Z)"),
        *("(whenCreated>=20260801)", "(whenCreated>=9999-12-31T23:59:59.5Z)", "(whenCreated>=20260801000000.0)"),
        *("(maxPwdAge>=P42D)", "(maxPwdAge=P)", "(maxPwdAge=P1DT)", "(maxPwdAge=P1Y)", "(uSNChanged=P1D)"),
        *("(userAccountControl=abc)", "(userAccountControl=0x200)", "(userAccountControl=4294967296)"),
        *("(userAccountControl:1.2.840.113556.1.4.803:=ACCOUNTDISABLE)", "(isDeleted=yes)", "(isDeleted=1)"),
        *("(objectSid=Administrators)", r"(objectSid=\01\02)", "(objectSid=S-1-5*)", "(objectSid=S-1)"),
        *("(objectGUID=8e3f6a52)", f"(objectGUID={GUID}0)", "(objectGUID=)", "(jpegPhoto=a photo)"),
        *("(memberOf=Announcements)", "(memberOf:1.2.840.113556.1.4.1941:=Announcements)", "(memberOf=)"),
        *("(wellKnownObjects=CN=a,DC=b)", "(objectClass=persn)", "(objectCategory=persn)"),
        *("(description=)", r"(description=\ff)", r"(description=*\ff*)", r"(description=a\00)"),
    ],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        read(text)


@pytest.mark.parametrize(
    ("text", "is_compared"),
    [
        *(("(memberOf=CN=a*)", False), ("(memberOf>=CN=a)", False), ("(memberOf=CN=a)", True), ("(memberOf=*)", True)),
        *(("(userAccountControl=5*)", False), ("(userAccountControl>=5)", True), ("(whenCreated=2026*)", False)),
        *(("(isDeleted=T*)", False), ("(acl=AQ==)", False), ("(acl=*)", True), ("(description=a*)", True)),
    ],
)
def test_what_no_directory_compares_is_told(text: str, *, is_compared: bool) -> None:
    term = parse_filter(text)
    attribute = SCHEMA.attribute(*term.attributes())
    assert attribute is not None
    assert (incomparable_reason(term, attribute) is None) is is_compared


def test_terms_know_where_their_values_are() -> None:
    for text in ("(cn=x)", "(cn=x*)", "(cn~=x)", "(cn>=x)", "(cn<=x)", "(cn:1.2.3:=x)"):
        assert text[getattr(parse_filter(text), "at", 0)] == "x"
    with pytest.raises(FilterSyntax):
        parse_filter("(cn=x")
