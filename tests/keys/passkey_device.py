"""A device that keeps passkeys, after WebAuthn level 2, owing nothing to the gateway's code. It lies when told to."""

import hashlib
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

ORIGIN = "https://gateway.example.test"
DOMAIN = "gateway.example.test"
_PRESENT, _VERIFIED, _NEW_KEY = 0x01, 0x04, 0x40


def encode(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Device:
    """One passkey. `counts` is how far its counter has come; synchronised passkeys leave it at 0."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    id: bytes = field(default_factory=lambda: os.urandom(32))
    person: bytes = b""
    counts: int = 0

    def make(self, options: dict[str, Any], *, verified: bool = True, **lies: str) -> str:
        """What `navigator.credentials.create()` answers, as JSON."""
        self.person = decode(options["user"]["id"])
        point = self.key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32), -3: point.y.to_bytes(32)}
        made = bytes(16) + len(self.id).to_bytes(2) + self.id + cbor2.dumps(key)
        data = self._data(verified, _NEW_KEY, **lies) + made
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = _client("webauthn.create", options, **lies)
        return self._answer({"clientDataJSON": encode(client), "attestationObject": encode(attestation)})

    def answer(self, options: dict[str, Any], *, verified: bool = True, **lies: str) -> str:
        """What `navigator.credentials.get()` answers, as JSON."""
        data, client = self._data(verified, 0, **lies), _client("webauthn.get", options, **lies)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._answer(
            {
                "clientDataJSON": encode(client),
                "authenticatorData": encode(data),
                "signature": encode(signature),
                "userHandle": encode(self.person),
            }
        )

    def _data(self, verified: bool, flags: int, *, domain: str = DOMAIN, **_: str) -> bytes:
        flags |= _PRESENT | (_VERIFIED if verified else 0)
        return hashlib.sha256(domain.encode()).digest() + bytes([flags]) + self.counts.to_bytes(4)

    def _answer(self, response: dict[str, str]) -> str:
        whole = {"id": encode(self.id), "rawId": encode(self.id), "type": "public-key", "response": response}
        return json.dumps({**whole, "clientExtensionResults": {}, "authenticatorAttachment": "platform"})


def _client(
    kind: str, options: dict[str, Any], *, origin: str = ORIGIN, challenge: str = "", type: str = "", **_: str
) -> bytes:
    told = {"type": type or kind, "challenge": challenge or options["challenge"], "origin": origin}
    return json.dumps({**told, "crossOrigin": False}).encode()
