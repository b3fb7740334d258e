"""Values as text and back, for every syntax the directory has."""

import base64
import datetime
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from active_directory import (
    AttributeType,
    Client,
    InvalidValue,
    Modification,
    Modify,
    Syntax,
    ValueType,
    datetime_to_filetime,
    decode,
    encode,
    filetime_to_datetime,
    is_credential,
    sid_to_text,
    text_to_sid,
    value_type,
)
from lab.directory import Directory


def attribute(name: str, syntax: Syntax, om_syntax: int = 0, **more: int) -> AttributeType:
    return AttributeType(name, syntax, om_syntax, "1.2.3", single_valued=False, **more)  # type: ignore[arg-type]


TEXT = attribute("displayName", Syntax.UNICODE_STRING)
PHOTO = attribute("thumbnailPhoto", Syntax.OCTET_STRING)
GUID = attribute("mS-DS-ConsistencyGuid", Syntax.OCTET_STRING)
SID = attribute("sIDHistory", Syntax.SID)
EXPIRES = attribute("accountExpires", Syntax.LARGE_INTEGER)
PASSWORD_SET = attribute("pwdLastSet", Syntax.LARGE_INTEGER)
DURATION = attribute("maxPwdAge", Syntax.LARGE_INTEGER)
NUMBER = attribute("countryCode", Syntax.INTEGER)
FLAG = attribute("isDeleted", Syntax.BOOLEAN)
TIME = attribute("whenCreated", Syntax.TIME, 24)
UTC_TIME = attribute("oldTime", Syntax.TIME, 23)
NAME = attribute("manager", Syntax.DN)
TAGGED = attribute("wellKnownObjects", Syntax.DN_BINARY)
TAGGED_TEXT = attribute("msDS-HasInstantiatedNCs", Syntax.DN_STRING)
IDENTIFIER = attribute("objectCategory", Syntax.OID)
DIGITS = attribute("x121Address", Syntax.NUMERIC_STRING)
PRINTABLE = attribute("serialNumber", Syntax.PRINTABLE_STRING, 19)
IA5 = attribute("proxied", Syntax.PRINTABLE_STRING, 22)
DESCRIPTOR = attribute("nTSecurityDescriptor", Syntax.SECURITY_DESCRIPTOR)

PAIRS = [
    (TEXT, b"Ada \xc3\x9c", "Ada Ü"),
    (PHOTO, b"\xff\xd8\xff", "/9j/"),
    (DESCRIPTOR, b"\x01\x00", "AQA="),
    (GUID, uuid.UUID("c208f98d-8616-42bb-8dbe-82453aae2c00").bytes_le, "c208f98d-8616-42bb-8dbe-82453aae2c00"),
    (SID, bytes.fromhex("010200000000000520000000 20020000"), "S-1-5-32-544"),
    (EXPIRES, b"9223372036854775807", "never"),
    (EXPIRES, b"132539328000000000", "2021-01-01T00:00:00Z"),
    (EXPIRES, b"132539328000000001", "2021-01-01T00:00:00.0000001Z"),
    (PASSWORD_SET, b"0", "never"),
    (PASSWORD_SET, b"-1", "-1"),
    (DURATION, b"-36288000000000", "-36288000000000"),
    (NUMBER, b"-5", "-5"),
    (FLAG, b"TRUE", "TRUE"),
    (TIME, b"20261121051221.0Z", "2026-11-21T05:12:21Z"),
    (UTC_TIME, b"261121051221Z", "2026-11-21T05:12:21Z"),
    (NAME, b"CN=Ada,DC=corp", "CN=Ada,DC=corp"),
    (NAME, b"<GUID=c208f98d-8616-42bb-8dbe-82453aae2c00>", "<GUID=c208f98d-8616-42bb-8dbe-82453aae2c00>"),
    (TAGGED, b"B:4:AB12:CN=Ada,DC=corp", "B:4:AB12:CN=Ada,DC=corp"),
    (TAGGED_TEXT, b"S:3:a:b:CN=Ada,DC=corp", "S:3:a:b:CN=Ada,DC=corp"),
    (IDENTIFIER, b"2.5.6.7", "2.5.6.7"),
    (DIGITS, b"12 34", "12 34"),
    (PRINTABLE, b"SN-1", "SN-1"),
    (IA5, b"a@b", "a@b"),
]


@pytest.mark.parametrize(("kind", "raw", "text"), PAIRS)
def test_values_are_written_and_read(kind: AttributeType, raw: bytes, text: str) -> None:
    assert decode(kind, [raw]) == [text]
    assert encode(kind, [text]) == [raw]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TEXT, ""),
        (TEXT, "a\x00b"),
        (TEXT, "\ud800"),
        (PHOTO, "not base64!"),
        (PHOTO, "AQ"),
        (PHOTO, ""),
        (PHOTO, "é"),
        (GUID, "c208f98d861642bb8dbe82453aae2c00"),
        (GUID, "{c208f98d-8616-42bb-8dbe-82453aae2c00}"),
        (SID, "S-1-5-"),
        (SID, "S-2-5-32"),
        (SID, "ſ-1-5-32"),
        (SID, "S-1-5-99999999999"),
        (EXPIRES, "soon"),
        (EXPIRES, "2026-01-01"),
        (EXPIRES, "2026-01-01T00:00:00"),
        (EXPIRES, "2026-02-30T00:00:00Z"),
        (EXPIRES, "1500-01-01T00:00:00Z"),
        (EXPIRES, "0001-01-01T00:00:00+01:00"),
        (EXPIRES, "9223372036854775808"),
        (EXPIRES, "2026-01-31T12:00:00+99:99"),
        (EXPIRES, "2026-01-31T12:00:00+24:00"),
        (EXPIRES, "2026-01-31T12:00:00-01:60"),
        (EXPIRES, "２０２６-01-31T12:00:00Z"),
        (EXPIRES, "2026-01-31T12:00:00.١Z"),
        (TIME, "2026-01-31T12:00:0٠Z"),
        (NUMBER, "2147483648"),
        (NUMBER, "1.0"),
        (NUMBER, " 1"),
        (NUMBER, "01"),
        (NUMBER, "١"),
        (FLAG, "true"),
        (TIME, "20261121051221.0Z"),
        (UTC_TIME, "2050-01-01T00:00:00Z"),
        (NAME, "nonsense"),
        (NAME, ""),
        (NAME, "<GUID=x>"),
        (NAME, "<ſID=S-1-5-32>"),
        (TAGGED, "B:3:AB1:CN=Ada,DC=corp"),
        (TAGGED, "B:4:AB1:CN=Ada,DC=corp"),
        (TAGGED, "S:4:AB12:CN=Ada,DC=corp"),
        (IDENTIFIER, "2..5"),
        (DIGITS, "12a"),
        (PRINTABLE, "a_b"),
        (IA5, "ü"),
    ],
)
def test_what_a_syntax_refuses(kind: AttributeType, text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        encode(kind, [text])
    assert caught.value.attribute == kind.name


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (attribute("cn", Syntax.UNICODE_STRING, range_lower=1, range_upper=4), "abcd", "abcde"),
        (attribute("cn", Syntax.UNICODE_STRING, range_upper=2), "😀", "😀a"),
        (attribute("photo", Syntax.OCTET_STRING, range_upper=2), "AQI=", "AQID"),
        (attribute("photo", Syntax.OCTET_STRING, range_lower=3), "AQID", "AQI="),
        (attribute("countryCode", Syntax.INTEGER, range_lower=0, range_upper=65535), "65535", "65536"),
    ],
)
def test_the_schema_s_ranges_hold(kind: AttributeType, good: str, bad: str) -> None:
    assert encode(kind, [good])
    with pytest.raises(InvalidValue):
        encode(kind, [bad])


def test_a_time_in_digits_of_another_script_is_shown_as_it_is() -> None:
    assert decode(TIME, ["２０２６1121051221.0Z".encode()]) == ["２０２６1121051221.0Z"]


@given(st.integers(min_value=1, max_value=2_650_467_743_999_999_999))
def test_filetimes_lose_nothing(filetime: int) -> None:
    (text,) = decode(EXPIRES, [str(filetime).encode()])
    assert encode(EXPIRES, [text]) == [str(filetime).encode()]


@given(st.datetimes(min_value=datetime.datetime(1601, 1, 2), timezones=st.just(datetime.UTC)))  # noqa: DTZ001
def test_filetimes_and_datetimes(moment: datetime.datetime) -> None:
    assert filetime_to_datetime(datetime_to_filetime(moment)) == moment


def test_never_and_beyond_are_no_datetimes() -> None:
    assert filetime_to_datetime(0) is None
    assert filetime_to_datetime(2**63 - 1) is None
    assert filetime_to_datetime(2**63 - 2) is None
    assert decode(EXPIRES, [str(2**63 - 2).encode()]) == [str(2**63 - 2)]


@given(st.integers(0, 2**48 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=15))
def test_sids_lose_nothing(authority: int, parts: list[int]) -> None:
    raw = bytes([1, len(parts)]) + authority.to_bytes(6, "big") + b"".join(p.to_bytes(4, "little") for p in parts)
    assert text_to_sid(sid_to_text(raw)) == raw


@given(st.binary(max_size=60))
def test_octets_lose_nothing(raw: bytes) -> None:
    assert base64.b64decode(decode(PHOTO, [raw])[0]) == raw
    for kind, *_ in PAIRS:
        assert len(decode(kind, [raw])) == 1  # whatever a directory returns can be shown
    assert len(decode(None, [raw])) == 1


@pytest.mark.parametrize("name", ["unicodePwd", "USERPASSWORD", "ms-Mcs-AdmPwd", "msLAPS-Password", "userPassword;x-y"])
def test_credentials_are_known(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize("name", ["pwdLastSet", "msDS-KeyCredentialLink", "ms-Mcs-AdmPwdExpirationTime"])
def test_what_only_sounds_like_a_credential(name: str) -> None:
    assert not is_credential(name)


def test_every_attribute_of_the_schema_has_a_type_and_is_decoded(client: Client) -> None:
    for kind in client.schema.attributes.values():
        assert value_type(kind) in ValueType
        assert decode(kind, [b"1"])


def test_the_directory_agrees(client: Client, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit)
    guid = str(uuid.uuid4())
    wanted = {
        "accountExpires": "2031-05-06T07:08:09.1234567Z",
        "mS-DS-ConsistencyGuid": guid,
        "thumbnailPhoto": "/9j/",
        "displayName": "Ada Ü 😀",
        "countryCode": "276",
        "msTSExpireDate": "2031-05-06T07:08:09Z",
        "msTSAllowLogon": "TRUE",
    }
    schema = client.schema
    steps = []
    for name, text in wanted.items():
        kind = schema.attribute(name)
        assert kind is not None
        steps.append(Modification("replace", name, tuple(encode(kind, [text]))))
    client.write(Modify(directory.dn(user), tuple(steps)))
    entry = client.read(user, list(wanted))
    assert {name: decode(schema.attribute(name), entry.values(name)) for name in wanted} == {
        name: [text] for name, text in wanted.items()
    }
