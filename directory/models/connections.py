"""Tables of the directory app: the connections to directories, and the permissions on what is in them.

Directory objects themselves are never stored here.
"""

import ipaddress
import re
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from cryptography.x509 import load_pem_x509_certificates
from django.core.exceptions import ValidationError
from django.db import models

from active_directory import DistinguishedName, InvalidValue
from core.secrets.encryption import EncryptedTextField
from directory.models.bind_password_seal import DESTINATION_FIELDS, seal_of
from directory.models.revisions import Revised


def _client_id() -> str:
    return str(uuid4())


def require_server_urls(urls: Any, *, start_tls: bool) -> None:
    """Refuse a list of servers that could send the bind password in clear. Raises ValidationError."""
    if not isinstance(urls, list) or not urls or not all(isinstance(url, str) for url in urls):
        raise ValidationError("Give at least one server as a list of URLs.", code="invalid")
    if len(set(urls)) != len(urls):
        raise ValidationError("The same server is listed twice.", code="invalid")
    scheme = "ldap" if start_tls else "ldaps"
    for url in urls:
        try:
            parts = urlsplit(url)
            port_is_valid = parts.port is None or parts.port > 0
        except ValueError:
            raise ValidationError(f"{url} is not a URL.", code="invalid") from None
        if parts.scheme != scheme:
            why = "StartTLS begins on ldap://" if start_tls else "without StartTLS only ldaps:// is encrypted"
            raise ValidationError(f"{url}: must be {scheme}://host[:port] ({why}).", code="invalid")
        is_bare = url.removesuffix("/") == f"{scheme}://{parts.netloc}" and "@" not in parts.netloc
        if not _is_host(parts.hostname) or not port_is_valid or not is_bare:
            raise ValidationError(f"{url}: must be {scheme}://host[:port] and nothing more.", code="invalid")


def _is_host(name: str | None) -> bool:
    if not name:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        label = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
        return len(name) <= 253 and re.fullmatch(rf"{label}(\.{label})*\.?", name, re.IGNORECASE) is not None
    return True


def _is_distinguished_name(text: str) -> bool:
    try:
        return bool(DistinguishedName.parse(text).rdns)
    except InvalidValue:
        return False


def require_certificates(pem: str) -> None:
    """Refuse a CA text that is not one or more PEM certificates. Raises ValidationError."""
    try:
        load_pem_x509_certificates(pem.encode())
    except ValueError:
        raise ValidationError("This is not a certificate in PEM form.", code="invalid") from None


# What the gateway writes by itself while others have the row in hand to change it.
_LEARNT = frozenset({"bind_account", "bind_account_learnt_for", "protection_changes"})


class DirectoryConnection(Revised):
    """How the gateway reaches one Active Directory domain, and as whom.

    `revision` grows with every change, so that each process notices that its pool of LDAP connections is outdated.
    `bind_seal` binds the password to where it is sent (`directory.models.bind_password_seal`). While the gateway
    changes it (`directory.changes.bind_password_rotation`), the new one is `pending_bind_password`; afterwards the old
    one is kept for a while.
    """

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    name = models.CharField(
        max_length=100, unique=True, help_text="Shown to people, and the name by which they choose it to sign in."
    )
    urls = models.JSONField(
        "servers",
        help_text='Domain controllers in order of preference, as a JSON list: ["ldaps://dc1.example.com", …]. '
        "The name must be one that the server's certificate carries. ldap:// is accepted with StartTLS only.",
    )
    base_dn = models.CharField(
        "base DN", max_length=1000, help_text="The domain's distinguished name, such as DC=corp,DC=example,DC=com."
    )
    bind_dn = models.CharField(
        "bind DN",
        max_length=1000,
        help_text="The account the gateway signs in with: a distinguished name or user principal name. "
        "Give it the rights it needs and no more; the gateway's own roles confine what is done with them.",
    )
    bind_account = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="The SID of the account that the bind DN stood for when it was last looked up.",
    )
    bind_account_learnt_for = models.CharField(max_length=1000, blank=True, default="", db_default="", editable=False)
    protection_changes = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="Grows with every change by the gateway that may change which other objects are protected.",
    )
    bind_password = EncryptedTextField("bind password", help_text="Encrypted in the database and never shown again.")
    bind_seal = EncryptedTextField(blank=True, default="", db_default="", editable=False)
    pending_bind_password = EncryptedTextField(blank=True, default="", db_default="", editable=False)
    pending_since = models.DateTimeField(null=True, editable=False)
    previous_bind_password = EncryptedTextField(blank=True, default="", db_default="", editable=False)
    rotated_at = models.DateTimeField(null=True, editable=False)
    ca_certificate = models.TextField(
        "CA certificate",
        blank=True,
        default="",
        validators=[require_certificates],
        help_text="PEM text of the authority that signed the servers' certificates. "
        "Empty means the operating system's authorities.",
    )
    start_tls = models.BooleanField(
        "StartTLS", default=False, help_text="Begin on ldap:// and encrypt before anything is said."
    )
    enabled = models.BooleanField(
        default=True, help_text="A disabled connection answers nobody: every key linked to it gets 403."
    )
    client_id = models.CharField(
        "Client ID",
        max_length=36,
        unique=True,
        default=_client_id,
        editable=False,
        help_text="What a person's tool sends in X-Client-Id to choose this directory. "
        "API keys have a Client ID of their own for each link.",
    )

    class Meta:
        ordering = ("name",)
        verbose_name = "directory connection"
        permissions = (("rotate_bind_password", "Have the gateway change the password of its account"),)

    def __str__(self) -> str:
        return self.name

    bind_password_given = False
    """Set by who has just been given the password, so that it is sealed to the connection as it is now."""
    _kept_password: str | None = None

    @classmethod
    def from_db(cls, *args: Any, **kwargs: Any) -> Self:
        row = super().from_db(*args, **kwargs)
        row._kept_password = row.__dict__.get("bind_password")
        return row

    def refresh_from_db(self, using: Any = None, fields: Any = None, from_queryset: Any = None) -> None:
        super().refresh_from_db(using=using, fields=fields, from_queryset=from_queryset)
        if fields is None or "bind_password" in fields:
            self._kept_password = self.bind_password

    def clean(self) -> None:
        problems: dict[str, list[str]] = {}
        try:
            require_server_urls(self.urls, start_tls=self.start_tls)
        except ValidationError as refusal:
            problems["urls"] = refusal.messages
        if self.base_dn and not _is_distinguished_name(self.base_dn):
            problems["base_dn"] = ["This is not a distinguished name."]
        if not self._is_password_given() and not self.is_bind_password_sealed:
            problems["bind_password"] = [
                "Give the password anew: the servers, their authority, StartTLS or the bind name have changed."
            ]
        if problems:
            raise ValidationError(problems)

    @property
    def is_bind_password_sealed(self) -> bool:
        """Whether the password was given for the servers and the name that the connection has now."""
        return self.bind_seal == self._seal()

    def seal_bind_password(self) -> None:
        """Bind the password to the servers and the name that it was given for; saving a new connection does so."""
        self.bind_seal = self._seal()

    def _seal(self) -> str:
        destination: dict[str, Any] = {name: getattr(self, name) for name in DESTINATION_FIELDS}
        return seal_of(**destination, password=self.bind_password)

    def _is_password_given(self) -> bool:
        """One that is not the password kept was given too."""
        return self._state.adding or self.bind_password_given or self.bind_password != self._kept_password

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, with a new seal where the password was given, and without what the gateway learns by itself."""
        if self._is_password_given():
            self.bind_seal = self._seal()
            changed = {"bind_seal"}
            if self.previous_bind_password != self._kept_password:  # given by somebody: others are of no account now
                self.pending_bind_password = self.previous_bind_password = ""
                self.pending_since = None
                changed |= {"pending_bind_password", "previous_bind_password", "pending_since"}
            if kwargs.get("update_fields") is not None:
                kwargs["update_fields"] = {*kwargs["update_fields"], *changed}
        if not self._state.adding:
            given = kwargs.get("update_fields")
            if given is None:
                given = {field.name for field in self._meta.concrete_fields if not field.primary_key} - _LEARNT
            kwargs["update_fields"] = {*given, "revision", "changed_at"}
        super().save(*args, **kwargs)
        self._kept_password, self.bind_password_given = self.bind_password, False


_PERMISSIONS = """
    read_object               Read and search directory objects
    create_user               Create users
    update_user               Update users
    delete_user               Delete users
    create_group              Create groups
    update_group              Update groups
    delete_group              Delete groups
    create_computer           Create computers
    update_computer           Update computers
    delete_computer           Delete computers
    create_organizationalunit Create organizational units
    update_organizationalunit Update organizational units
    delete_organizationalunit Delete organizational units
    create_object             Create objects of any other class
    update_object             Update objects of any other class
    delete_object             Delete objects of any other class
    move_object               Move objects to another container
    manage_membership         Add and remove members of groups
    enable_account            Enable accounts
    disable_account           Disable accounts
    unlock_account            Unlock accounts
    reset_password            Reset passwords
    change_password           Change passwords, knowing the current one
    run_accounts              Enable or disable all accounts of an organizational unit in one run
    read_deleted              Read deleted objects
    restore_deleted           Restore deleted objects
    read_confidential         Read attributes that the schema marks confidential
    read_acl                  Read access control lists and delegations
    run_savedfilter           Run saved filters
    manage_savedfilter        Create, change and delete saved filters
    manage_protected          Change protected objects (administrators, domain controllers, system objects)
"""


class DirectoryPermission(models.Model):
    """What a role may do with the objects of a directory. No table: it only gives the permissions a home in Django."""

    class Meta:
        managed = False
        default_permissions = ()
        verbose_name = "directory object"
        permissions = tuple((line.split()[0], line.split(maxsplit=1)[1]) for line in _PERMISSIONS.strip().splitlines())
