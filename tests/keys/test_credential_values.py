"""The form of keys and tokens."""

import hashlib
import re
import zlib

import pytest

from keys import credential_values
from keys.credential_values import ALPHABET, Prefix


def base62(text: str) -> int:
    number = 0
    for digit in text:
        number = number * 62 + ALPHABET.index(digit)
    return number


def test_it_works() -> None:
    value, secret = credential_values.make(Prefix.API_KEY)
    assert re.fullmatch(r"dgk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}", value)
    assert base62(value[-6:]) == zlib.crc32(value[:-6].encode())
    assert (secret.lookup_id, secret.digest) == (value[4:16], hashlib.sha256(value.encode()).hexdigest())
    assert credential_values.parse(value, Prefix.API_KEY) == secret
    assert secret.matches(secret.digest)
    assert not secret.matches("0" * 64)


@pytest.mark.parametrize("number", [0, 1, 61, 62, 2**32 - 1])
def test_the_checksum_is_padded_on_the_left(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zlib, "crc32", lambda _: number)
    digits = credential_values.checksum("anything")
    assert len(digits) == 6
    assert base62(digits) == number


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value[:-1] + ("0" if value[-1] != "0" else "1"),
        lambda value: value[:20] + ("0" if value[20] != "0" else "1") + value[21:],
        lambda value: value + "\n",
        lambda value: value[:-1],
        lambda value: value.replace("dgk_", "dgp_"),
        lambda value: value[:4] + "é" + value[5:],
        lambda _: "",
    ],
)
def test_a_damaged_value_is_refused(spoil: object) -> None:
    value, _ = credential_values.make(Prefix.API_KEY)
    assert credential_values.parse(spoil(value), Prefix.API_KEY) is None  # type: ignore[operator]


def test_a_value_of_another_kind_is_refused() -> None:
    value, _ = credential_values.make(Prefix.PLATFORM_TOKEN)
    assert credential_values.parse(value, Prefix.API_KEY) is None
