"""JSON of values whose texts may be octets."""

import json

from core.shapes import encode_json


def test_it_works() -> None:
    value = {"id": "1", "attributes": {"cn": [b'Zo\xc3\xab "x"\n'], "n": ["é"]}, "none": None}
    assert json.loads(encode_json(value)) == {"id": "1", "attributes": {"cn": ['Zoë "x"\n'], "n": ["é"]}, "none": None}


def test_what_is_no_utf_8_is_replaced() -> None:
    assert json.loads(encode_json({"items": [{"a": [b"\xff\xfe!", b"x"]}, ("y", b"\xc3")]})) == {
        "items": [{"a": ["\ufffd\ufffd!", "x"]}, ["y", "\ufffd"]]
    }
