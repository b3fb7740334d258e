"""Records encoded in C against those that the renderer makes, of any values that a directory could send."""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from active_directory import AttributeType, Entry, Schema, Syntax, json_templates
from core.shapes import encode_json
from directory.shapes.encoded import Encoder, encoder_of, with_parent
from directory.shapes.record import DirectoryObject, Renderer, Selection
from tests.support.sanitizers import run_under_sanitizers

_SYNTAXES = {
    **dict.fromkeys(("whenCreated", "whenChanged"), Syntax.TIME),
    **dict.fromkeys(("pwdLastSet", "accountExpires", "lastLogon", "lastLogonTimestamp"), Syntax.LARGE_INTEGER),
    **dict.fromkeys(("name", "sAMAccountName", "userPrincipalName", "displayName"), Syntax.UNICODE_STRING),
    **dict.fromkeys(("userAccountControl", "adminCount"), Syntax.INTEGER),
    **dict.fromkeys(("objectGUID", "jpegPhoto"), Syntax.OCTET_STRING),
    "uSNChanged": Syntax.LARGE_INTEGER,
    "objectClass": Syntax.OID,
    "objectSid": Syntax.SID,
    "memberOf": Syntax.DN,
}
_SCHEMA = Schema({name.lower(): AttributeType(name, of, 24, "1.2.3", False) for name, of in _SYNTAXES.items()}, {})
_TEXTS = (
    *(b"", b"Anna", "Jörg Möller 東京 🙂".encode(), b'"\\/\b\f\n\r\t\x00\x1f\x7f', b"a" * 5000),
    *(b',"parentId":null', b'{"id":1,"parentId":null}'),
    *("\u2028\u0085\uffff\U0010ffff".encode(), b"CN=x\\0ADEL:1,CN=Deleted Objects,DC=a", b"a\\,b\\0Ac"),
)
_NO_TEXTS = (
    *(b"\xff", b"\xc3", b"\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x9f\xbf"),
    *(b"\xf0\x8f\xbf\xbf", b"\xf8", b"x\x80y", b"\xe2\x82\xac\xe2", b"\xf0\x9f\x99"),
)
_NUMBERS = [
    *(b"%d" % number for power in (0, 9, 16, 31, 63) for number in (2**power - 1, 1 - 2**power)),
    *(
        b"-0",
        b"512",
        b"66048",
        b"8388608",
        b"133801632000000000",
        b"116444736000000000",
    ),
    *(
        b"2650467743999999999",
        b"2650467744000000000",
        b"2650467744000000001",
    ),
]
_NO_NUMBERS = (
    *(b"9223372036854775808", b"-9223372036854775808", b"9999999999999999999", b"10000000000000000000", b"+5"),
    b" 5",
    b"05",
    b"1_0",
    "５".encode(),
    b"-",
    b"5\x00",
)
_TIMES = (
    *(b"2026%02d%02d121314.0Z" % (month, day) for month in range(1, 13) for day in (1, 28)),
    *(b"20260131235959.0Z", b"20260430000000.0Z", b"16010101000000.0Z", b"99991231235959.0Z"),
)
_NO_TIMES = (
    *(b"20260228235959.0Z", b"20260229000000.0Z", b"20240229000000.0Z", b"20260431000000.0Z"),
    *(b"00010101000000.0Z", b"20261301000000.0Z", b"20260101240000.0Z"),
    *(b"20260101006000.0Z", b"20260101000060.0Z", b"20260101000000.5Z", b"20260101000000Z", b"260101000000Z", b"x"),
    *(b"20260000000000.0Z", b"20260100000000.0Z", b"2026010100000\xff.0Z", b"20260101000000.0ZZ", b""),
    *(b"2026%02d%02d121314.0Z" % (month, day) for month in range(1, 13) for day in (29, 30, 31, 32)),
)


def _octets(random: Random) -> bytes:
    return random.choice([random.randbytes(random.randrange(64)), random.randbytes(16), random.choice(_TEXTS)])


def _sid(random: Random) -> bytes:
    count = random.choice([0, 1, 5, 15, *([16] if random.random() < 0.02 else [])])
    start = bytes([random.choice([*[1] * 99, 2]), count, random.choice([*[0] * 99, 1]), 0])
    return start + random.randbytes(4 + 4 * count - (random.random() < 0.02))


def _filetime(random: Random) -> bytes:
    return random.choice([random.choice(_NUMBERS), b"%d" % random.randrange(-(2**40), 2 ** random.randrange(40, 64))])


_MAKES: dict[Syntax, Callable[[Random], bytes]] = {
    Syntax.TIME: lambda random: random.choice(_TIMES),
    Syntax.LARGE_INTEGER: _filetime,
    Syntax.INTEGER: lambda random: random.choice(_NUMBERS),
    Syntax.SID: _sid,
    Syntax.OCTET_STRING: _octets,
}


def _entry(random: Random) -> Entry:
    """What a directory may send, now and then of another syntax than the schema says."""
    odd = random.choice([0, 0, 0.01, 0.2])

    def value(syntax: Syntax) -> bytes:
        if random.random() < odd:
            return random.choice((*_NO_NUMBERS, *_NO_TIMES, *_TEXTS, *_NO_TEXTS, random.randbytes(28)))
        return _MAKES[syntax](random) if syntax in _MAKES else random.choice(_TEXTS)

    attributes = {
        name: [value(syntax) for _ in range(random.choice([1, 1, 1, 1, 3, 0]))]
        for name, syntax in _SYNTAXES.items()
        if random.random() < 0.98
    }
    attributes["objectClass"] = [b"top", b"person", random.choice([*[b"user"] * 9, b"group", b"\xff"])]
    attributes["objectGUID"] = [random.randbytes(16)]
    return Entry(
        random.choice(
            ["CN=a,DC=b", 'CN=,"parentId":null,DC=b', 'CN="ö\\,\\0A東,DC=b', "", *(["\ud800"] if odd else [])]
        ),
        attributes,
    )


def _outcome(make: Callable[..., object], entry: Entry, decided: Mapping[str, object]) -> bytes | type[Exception]:
    try:
        return encode_json(make(entry, **decided))
    except Exception as error:  # noqa: BLE001 - both must fail alike
        return type(error)


class _Watched(Renderer):
    rendered = 0

    def render(self, *given: Any, **named: Any) -> DirectoryObject:
        self.rendered += 1
        return super().render(*given, **named)


def share_made_by_c(seed: int, count: int) -> float:
    """Compare so many entries, and return the share of them that C made."""
    random = Random(seed)  # noqa: S311 - the same entries each time
    selection = Selection(shown=tuple(_SYNTAXES), everything=False, to_read=())
    renderer, watched = Renderer(_SCHEMA, selection), _Watched(_SCHEMA, selection, octets=True)
    encoder = Encoder(watched)
    for _ in range(count):
        entry = _entry(random)
        decided: dict[str, Any] = {
            "protected": random.random() < 0.5,
            "parent_id": random.choice([None, "1b2c", 'ö"']),
            "computed_control": random.choice([0, 0x10, 0x800000, 0x800010]),
        }
        made = _outcome(encoder.encode, entry, decided)
        assert made == _outcome(renderer.render, entry, decided), entry.attributes
        if isinstance(made, bytes):
            later = encoder_of(renderer).encode(entry, **{**decided, "parent_id": None})
            assert with_parent(later, decided["parent_id"]) == made, entry.attributes
    return 1 - watched.rendered / count


def test_c_makes_what_the_renderer_makes() -> None:
    assert share_made_by_c(seed=1, count=3000) > 0.1


def test_without_c_everything_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_templates, "_is_compiled", False)
    assert share_made_by_c(seed=2, count=100) == 0


def test_nothing_is_read_or_written_out_of_bounds(tmp_path: Path) -> None:
    program = "from tests.directory.shapes.test_encoded import share_made_by_c as made; print(made(seed=3, count=1500))"
    assert float(run_under_sanitizers(tmp_path, program)) > 0.1
