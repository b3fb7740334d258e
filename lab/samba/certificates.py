"""A certificate authority for one machine, and its server certificates."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class CertificateAuthority:
    """An authority kept in a directory as ``ca.pem`` (for clients) and ``ca.key`` (mode 0600)."""

    def __init__(self, directory: Path) -> None:
        self.certificate_file = directory / "ca.pem"
        self._key_file = directory / "ca.key"

    def create(self, name: str) -> None:
        """Make the authority's key and self-signed certificate unless they exist."""
        if self._key_file.exists() and self.certificate_file.exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        certificate = (
            _builder(subject, subject, key.public_key(), valid_for=datetime.timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write_key(self._key_file, key)
        self.certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        names: Sequence[str],
        *,
        certificate_file: Path,
        key_file: Path,
        valid_for: datetime.timedelta = datetime.timedelta(days=825),
    ) -> None:
        """Write a server certificate for DNS names and addresses; a negative ``valid_for`` makes an expired one."""
        authority = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        authority_key = serialization.load_pem_private_key(self._key_file.read_bytes(), password=None)
        if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self._key_file} does not hold an elliptic curve key")
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(names[0]), authority.subject, key.public_key(), valid_for=valid_for)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        _write_key(key_file, key)
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, *, valid_for: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    end = now + valid_for
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        # An hour of slack, since the clocks of virtual machines may be set back when they resume.
        .not_valid_before(min(now, end) - datetime.timedelta(hours=1))
        .not_valid_after(end)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
