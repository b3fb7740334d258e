"""Directory connections, what is known of their bind passwords, password attempts, and the permissions on objects."""

import hashlib
import ipaddress
import json
import re
from typing import Any, Final, Self
from urllib.parse import urlsplit
from uuid import uuid4

from cryptography.x509 import load_pem_x509_certificates
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F
from django.utils import timezone

from active_directory import DistinguishedName, InvalidValue
from core.secrets.encryption import EncryptedTextField


class Revised(models.Model):
    """A row whose `revision` grows with every change."""

    revision = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, and increment the revision in the database, so that two concurrent changes make two revisions."""
        if not self._state.adding:
            self.revision = F("revision") + 1
        super().save(*args, **kwargs)
        self.refresh_from_db(fields=["revision"])  # else the next save would apply the expression again


def _client_id() -> str:
    return str(uuid4())


def require_server_urls(urls: Any, *, start_tls: bool) -> None:
    """Refuse servers that would receive the bind password unencrypted. Raises ValidationError."""
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
    """Refuse text other than one or more PEM certificates. Raises ValidationError."""
    try:
        load_pem_x509_certificates(pem.encode())
    except ValueError:
        raise ValidationError("This is not a certificate in PEM form.", code="invalid") from None


# The seal binds the bind password to its destination. Without it, anyone who may edit a connection, or its row in the
# database, could point it at their own server and receive the password. It is made when somebody enters the password,
# encrypted like the password, and compared before the password is used: without a match the gateway sends nothing.
DESTINATION_FIELDS: Final = ("urls", "start_tls", "ca_certificate", "bind_dn")
"""The fields of a connection that decide where its password is sent, and for which account."""


def bind_seal_of(*, urls: list[str], start_tls: bool, ca_certificate: str, bind_dn: str, password: str) -> str:
    """A digest of the password and its destination, whatever the order of servers and the white space of the PEM."""
    servers = sorted({str(url).lower().rstrip("/") for url in urls})
    sealed = json.dumps([servers, bool(start_tls), ca_certificate.split(), bind_dn.strip(), password])
    return hashlib.sha256(sealed.encode()).hexdigest()


# The gateway updates these with queries of its own; a save of a row read earlier must not undo that.
_SELF_MAINTAINED_FIELDS = frozenset({"bind_account", "bind_account_learnt_for", "protection_changes"})


class DirectoryConnection(Revised):
    """How the gateway reaches one Active Directory domain, and with which account.

    By its `revision` each process notices that its pool of LDAP connections is outdated. `bind_seal` binds the password
    to its destination (`bind_seal_of`). During a rotation (`directory.changes.bind_password_rotation`) the new password
    is `pending_bind_password`; afterwards the old one stays for a while as `previous_bind_password`.
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
    identity_questions = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="What the help desk asks callers to find out who they are, one question a line. "
        "An attribute in braces, such as {employeeNumber}, shows its value.",
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
    """Set to True after somebody entered the password, even the same one: saving then seals it to the destination."""
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
        """Whether the password was entered for the connection's current servers and bind name."""
        return self.bind_seal == self._seal()

    def seal_bind_password(self) -> None:
        """Bind the password to the current servers and bind name; saving a new connection does so by itself."""
        self.bind_seal = self._seal()

    def _seal(self) -> str:
        destination: dict[str, Any] = {name: getattr(self, name) for name in DESTINATION_FIELDS}
        return bind_seal_of(**destination, password=self.bind_password)

    def _is_password_given(self) -> bool:
        """Whether somebody entered a password: the row is new, says so, or no longer has the stored one."""
        return self._state.adding or self.bind_password_given or self.bind_password != self._kept_password

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, with a new seal if a password was entered, and without the fields that the gateway maintains itself."""
        if self._is_password_given():
            self.bind_seal = self._seal()
            changed = {"bind_seal"}
            # A rotation keeps the old password as the previous one; a person's entry makes both others obsolete.
            if self.previous_bind_password != self._kept_password:
                self.pending_bind_password = self.previous_bind_password = ""
                self.pending_since = None
                changed |= {"pending_bind_password", "previous_bind_password", "pending_since"}
            if kwargs.get("update_fields") is not None:
                kwargs["update_fields"] = {*kwargs["update_fields"], *changed}
        if not self._state.adding:
            given = kwargs.get("update_fields")
            if given is None:
                given = {
                    field.name for field in self._meta.concrete_fields if not field.primary_key
                } - _SELF_MAINTAINED_FIELDS
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
    """The permissions on directory objects. It has no table: it only gives them a content type in Django."""

    class Meta:
        managed = False
        default_permissions = ()
        verbose_name = "directory object"
        permissions = tuple((line.split()[0], line.split(maxsplit=1)[1]) for line in _PERMISSIONS.strip().splitlines())


class BindPassword(models.Model):
    """What is known of one bind password at one server, so that a wrong one does not lock the bind account out.

    `digest` is a keyed digest of the connection, the bind name and the password. Until `tried_until` one process is
    trying it, and the others wait for the result. It has no foreign key, for it is written outside the transaction in
    which an LDAP connection is opened.
    """

    digest = models.CharField(max_length=64)
    server = models.CharField(max_length=300)
    worked_at = models.DateTimeField(null=True)
    refused_at = models.DateTimeField(null=True)
    tried_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("digest", "server"), name="directory_bind_password_once")]


class PasswordAttempt(models.Model):
    """An account's password that was wrong or is being tried.

    `account_digest` is keyed, as it may be of a name that somebody typed. `credential_id` is the credential under
    which the password was tried, empty for a sign-in.
    """

    class State(models.TextChoices):
        """A right password resets AD's badPwdCount, so it turns earlier wrong ones into `PAST`."""

        OPEN = "open"
        WRONG = "wrong"
        PAST = "past"

    at = models.DateTimeField(default=timezone.now, db_index=True)
    account_digest = models.CharField(max_length=64)
    credential_id = models.CharField(max_length=64, default="", db_default="")
    state = models.CharField(max_length=5, choices=State.choices, default=State.OPEN)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=("account_digest", "-at"), name="directory_attempts_by_account"),
            models.Index(fields=("credential_id", "-at"), name="directory_attempts_by_key"),
        ]
