"""The bits and numbers of Active Directory that the gateway reads or writes, each set with its source."""

import enum


class UserAccountControl(enum.IntFlag):
    """userAccountControl ([MS-ADTS] 2.2.16)."""

    SCRIPT = 0x0000_0001
    ACCOUNTDISABLE = 0x0000_0002
    HOMEDIR_REQUIRED = 0x0000_0008
    LOCKOUT = 0x0000_0010  # only in msDS-User-Account-Control-Computed
    PASSWD_NOTREQD = 0x0000_0020
    PASSWD_CANT_CHANGE = 0x0000_0040
    ENCRYPTED_TEXT_PASSWORD_ALLOWED = 0x0000_0080
    TEMP_DUPLICATE_ACCOUNT = 0x0000_0100
    NORMAL_ACCOUNT = 0x0000_0200
    INTERDOMAIN_TRUST_ACCOUNT = 0x0000_0800
    WORKSTATION_TRUST_ACCOUNT = 0x0000_1000
    SERVER_TRUST_ACCOUNT = 0x0000_2000
    DONT_EXPIRE_PASSWD = 0x0001_0000
    MNS_LOGON_ACCOUNT = 0x0002_0000
    SMARTCARD_REQUIRED = 0x0004_0000
    TRUSTED_FOR_DELEGATION = 0x0008_0000
    NOT_DELEGATED = 0x0010_0000
    USE_DES_KEY_ONLY = 0x0020_0000
    DONT_REQUIRE_PREAUTH = 0x0040_0000
    PASSWORD_EXPIRED = 0x0080_0000  # only in msDS-User-Account-Control-Computed
    TRUSTED_TO_AUTHENTICATE_FOR_DELEGATION = 0x0100_0000
    NO_AUTH_DATA_REQUIRED = 0x0200_0000
    PARTIAL_SECRETS_ACCOUNT = 0x0400_0000
    USE_AES_KEYS = 0x0800_0000


class PasswordProperties(enum.IntFlag):
    """pwdProperties of the domain ([MS-SAMR] 2.2.3.5)."""

    COMPLEX = 0x0000_0001


class GroupType(enum.IntFlag):
    """groupType ([MS-ADTS] 2.2.12), a signed 32-bit integer in the directory: see `signed`."""

    BUILTIN_LOCAL = 0x0000_0001
    ACCOUNT = 0x0000_0002
    RESOURCE = 0x0000_0004
    UNIVERSAL = 0x0000_0008
    APP_BASIC = 0x0000_0010
    APP_QUERY = 0x0000_0020
    SECURITY_ENABLED = 0x8000_0000

    # The names people know: GLOBAL and DOMAIN_LOCAL are aliases.
    GLOBAL = ACCOUNT
    DOMAIN_LOCAL = RESOURCE

    @classmethod
    def from_directory(cls, value: int) -> "GroupType":
        """From the signed integer AD stores."""
        return cls(value & 0xFFFF_FFFF)

    @property
    def signed(self) -> int:
        """As the signed integer AD stores."""
        return self.value - 0x1_0000_0000 if self.value & 0x8000_0000 else self.value


class SystemFlags(enum.IntFlag):
    """systemFlags ([MS-ADTS] 2.2.10); some bits mean one thing on attributes and another on crossRefs."""

    ATTR_NOT_REPLICATED = 0x0000_0001
    ATTR_REQ_PARTIAL_SET_MEMBER = 0x0000_0002
    ATTR_IS_CONSTRUCTED = 0x0000_0004
    ATTR_IS_OPERATIONAL = 0x0000_0008
    SCHEMA_BASE_OBJECT = 0x0000_0010
    ATTR_IS_RDN = 0x0000_0020
    DISALLOW_MOVE_ON_DELETE = 0x0200_0000
    DOMAIN_DISALLOW_MOVE = 0x0400_0000
    DOMAIN_DISALLOW_RENAME = 0x0800_0000
    CONFIG_ALLOW_LIMITED_MOVE = 0x1000_0000
    CONFIG_ALLOW_MOVE = 0x2000_0000
    CONFIG_ALLOW_RENAME = 0x4000_0000
    DISALLOW_DELETE = 0x8000_0000


class SearchFlags(enum.IntFlag):
    """Those of searchFlags of an attribute that decide something here ([MS-ADTS] 2.2.9)."""

    ATTINDEX = 0x0001
    ANR = 0x0004
    TUPLEINDEX = 0x0020
    CONFIDENTIAL = 0x0080


class InstanceType(enum.IntFlag):
    """instanceType ([MS-ADA1], attribute instanceType)."""

    HEAD_OF_NAMING_CONTEXT = 0x01
    NOT_INSTANTIATED = 0x02
    WRITABLE = 0x04
    NAMING_CONTEXT_ABOVE = 0x08
    UNDER_CONSTRUCTION = 0x10
    BEING_REMOVED = 0x20


class SupportedEncryptionTypes(enum.IntFlag):
    """msDS-SupportedEncryptionTypes ([MS-KILE] 2.2.7)."""

    DES_CBC_CRC = 0x01
    DES_CBC_MD5 = 0x02
    RC4_HMAC = 0x04
    AES128_CTS_HMAC_SHA1_96 = 0x08
    AES256_CTS_HMAC_SHA1_96 = 0x10


class FunctionalLevel(enum.IntEnum):
    """domainFunctionality and kin of the rootDSE ([MS-ADTS] 6.1.4.3)."""

    WINDOWS_2000 = 0
    WINDOWS_2003_MIXED = 1
    WINDOWS_2003 = 2
    WINDOWS_2008 = 3
    WINDOWS_2008_R2 = 4
    WINDOWS_2012 = 5
    WINDOWS_2012_R2 = 6
    WINDOWS_2016 = 7
    WINDOWS_2025 = 10


class DomainRid(enum.IntEnum):
    """Relative identifiers every domain gives to the same account or group ([MS-DTYP] 2.4.2.4)."""

    ENTERPRISE_READONLY_DOMAIN_CONTROLLERS = 498
    ADMINISTRATOR = 500
    KRBTGT = 502
    DOMAIN_ADMINS = 512
    DOMAIN_CONTROLLERS = 516
    CERT_PUBLISHERS = 517
    SCHEMA_ADMINS = 518
    ENTERPRISE_ADMINS = 519
    GROUP_POLICY_CREATOR_OWNERS = 520
    READONLY_DOMAIN_CONTROLLERS = 521
    KEY_ADMINS = 526
    ENTERPRISE_KEY_ADMINS = 527


class BuiltinRid(enum.IntEnum):
    """Relative identifiers below S-1-5-32 ([MS-DTYP] 2.4.2.4)."""

    ADMINISTRATORS = 544
    ACCOUNT_OPERATORS = 548
    SERVER_OPERATORS = 549
    PRINT_OPERATORS = 550
    BACKUP_OPERATORS = 551
    REPLICATOR = 552


BUILTIN_DOMAIN_SID = "S-1-5-32"
EVERYONE_SID = "S-1-1-0"

# The groups whose members can take over the domain; AdminSDHolder's list ([MS-ADTS] 3.1.1.6.1) and those that lead to
# the same end: policies run everywhere, and key admins may write anybody's sign-in keys.
PROTECTED_DOMAIN_RIDS = frozenset(
    {
        DomainRid.ENTERPRISE_READONLY_DOMAIN_CONTROLLERS,
        DomainRid.DOMAIN_ADMINS,
        DomainRid.DOMAIN_CONTROLLERS,
        DomainRid.CERT_PUBLISHERS,
        DomainRid.SCHEMA_ADMINS,
        DomainRid.ENTERPRISE_ADMINS,
        DomainRid.GROUP_POLICY_CREATOR_OWNERS,
        DomainRid.READONLY_DOMAIN_CONTROLLERS,
        DomainRid.KEY_ADMINS,
        DomainRid.ENTERPRISE_KEY_ADMINS,
    }
)
KEEPS_PASSWORD = (
    UserAccountControl.SMARTCARD_REQUIRED
    | UserAccountControl.DONT_EXPIRE_PASSWD
    | UserAccountControl.WORKSTATION_TRUST_ACCOUNT
    | UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
)
"""Any of these: the password neither expires nor has to be changed at the next sign-in ([MS-ADTS] 3.1.1.4.5.33)."""

PROTECTED_ACCOUNT_RIDS = frozenset({DomainRid.ADMINISTRATOR, DomainRid.KRBTGT})
PROTECTED_BUILTIN_RIDS = frozenset(
    {
        BuiltinRid.ADMINISTRATORS,
        BuiltinRid.ACCOUNT_OPERATORS,
        BuiltinRid.SERVER_OPERATORS,
        BuiltinRid.PRINT_OPERATORS,
        BuiltinRid.BACKUP_OPERATORS,
        BuiltinRid.REPLICATOR,
    }
)

# FILETIME ([MS-DTYP] 2.3.3): 100-nanosecond intervals since 1601-01-01 UTC. accountExpires and kin write "never" in
# two ways ([MS-ADA1], attribute accountExpires).
FILETIME_NEVER = (0, 2**63 - 1)
FILETIME_TICKS_PER_SECOND = 10_000_000
FILETIME_UNIX_EPOCH = 116_444_736_000_000_000

# The recycle bin in msDS-EnabledFeature of CN=Partitions ([MS-ADTS] 3.1.1.9.1).
RECYCLE_BIN_FEATURE_GUID = "766ddcd8-acd0-445e-f3b9-a7f9b6744f2a"
