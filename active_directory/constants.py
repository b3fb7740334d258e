"""Constants of Active Directory, with their sources: bits, numbers, identifiers, and attributes known by name."""

import enum
from typing import Final


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

    # The names that administrators know.
    GLOBAL = ACCOUNT
    DOMAIN_LOCAL = RESOURCE

    @classmethod
    def from_directory(cls, value: int) -> "GroupType":
        """From the signed integer that AD stores."""
        return cls(value & 0xFFFF_FFFF)

    @property
    def signed(self) -> int:
        """The signed integer that AD stores."""
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
    """The bits of an attribute's searchFlags that matter here ([MS-ADTS] 2.2.9)."""

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
    """domainFunctionality and its like in the rootDSE ([MS-ADTS] 6.1.4.3)."""

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
    """RIDs of protected accounts and groups, the same in every domain ([MS-DTYP] 2.4.2.4)."""

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
    """RIDs of protected groups below S-1-5-32 ([MS-DTYP] 2.4.2.4)."""

    ADMINISTRATORS = 544
    ACCOUNT_OPERATORS = 548
    SERVER_OPERATORS = 549
    PRINT_OPERATORS = 550
    BACKUP_OPERATORS = 551
    REPLICATOR = 552


BUILTIN_DOMAIN_SID = "S-1-5-32"
EVERYONE_SID = "S-1-1-0"
AUTHENTICATED_USERS_SID = "S-1-5-11"

PROTECTED_ACCOUNT_RIDS = frozenset({DomainRid.ADMINISTRATOR, DomainRid.KRBTGT})
# The groups whose members can take over the domain: those that AdminSDHolder protects ([MS-ADTS] 3.1.1.6.1) and others
# with the same power. Group policies run everywhere, and key admins can write anybody's msDS-KeyCredentialLink.
PROTECTED_DOMAIN_RIDS = frozenset(DomainRid) - PROTECTED_ACCOUNT_RIDS
PROTECTED_BUILTIN_RIDS = frozenset(BuiltinRid)
KEEPS_PASSWORD = (
    UserAccountControl.SMARTCARD_REQUIRED
    | UserAccountControl.DONT_EXPIRE_PASSWD
    | UserAccountControl.WORKSTATION_TRUST_ACCOUNT
    | UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
)
"""With any of these the password neither expires nor must be changed at the next sign-in ([MS-ADTS] 3.1.1.4.5.33)."""

# FILETIME ([MS-DTYP] 2.3.3): 100-nanosecond intervals since 1601-01-01 UTC. In accountExpires either value means
# "never" ([MS-ADA1], attribute accountExpires).
FILETIME_NEVER = (0, 2**63 - 1)
FILETIME_TICKS_PER_SECOND = 10_000_000
FILETIME_UNIX_EPOCH = 116_444_736_000_000_000

# The msDS-OptionalFeatureGUID of optional features ([MS-ADTS] 3.1.1.9.1, 3.1.1.9.2).
RECYCLE_BIN_FEATURE_GUID = "766ddcd8-acd0-445e-f3b9-a7f9b6744f2a"
PRIVILEGED_ACCESS_FEATURE_GUID = "ec43e873-cce8-4640-b4ab-07ffe4ab5bcd"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


# Large integers that are points in time. The others are durations (maxPwdAge), counters (uSNChanged) or bits.
FILETIME_ATTRIBUTES: Final = _names(
    """
    accountExpires badPasswordTime creationTime lastLogoff lastLogon lastLogonTimestamp lastSetTime lockoutTime
    priorSetTime pwdLastSet ms-Mcs-AdmPwdExpirationTime msDS-ApproximateLastLogonTimeStamp
    msDS-LastFailedInteractiveLogonTime msDS-LastSuccessfulInteractiveLogonTime msDS-UserPasswordExpiryTimeComputed
    msKds-CreateTime msKds-UseStartTime msLAPS-PasswordExpirationTime
    """
)
# Large integers that are negative intervals of the same ticks.
INTERVAL_ATTRIBUTES: Final = _names(
    """
    maxPwdAge minPwdAge lockoutDuration lockOutObservationWindow forceLogoff msDS-MaximumPasswordAge
    msDS-MinimumPasswordAge msDS-LockoutDuration msDS-LockoutObservationWindow
    """
)
GUID_ATTRIBUTES: Final = _names(
    """
    objectGUID schemaIDGUID attributeSecurityGUID parentGUID mS-DS-ConsistencyGuid invocationId netbootGUID siteGUID
    categoryId fRSReplicaSetGUID fRSVersionGUID msDS-OptionalFeatureGUID msDS-DeviceID msExchMailboxGuid
    msExchArchiveGUID msFVE-RecoveryGuid msFVE-VolumeGuid msDFS-GenerationGUIDv2 msDFS-LinkIdentityGUIDv2
    msDFS-NamespaceIdentityGUIDv2 msDFSR-ReplicationGroupGuid msDFSR-ContentSetGuid
    """
)
# Passwords, keys and what they can be derived from ([MS-ADTS] 3.1.1.4.4, and products that extend the schema).
CREDENTIAL_ATTRIBUTES: Final = _names(
    """
    unicodePwd userPassword clearTextPassword unixUserPassword msSFU30Password dBCSPwd lmPwdHistory ntPwdHistory
    supplementalCredentials currentValue priorValue initialAuthIncoming initialAuthOutgoing trustAuthIncoming
    trustAuthOutgoing pekList ms-Mcs-AdmPwd ms-Mcs-AdmPwdHistory msDS-ManagedPassword msDS-ExecuteScriptPassword
    msKds-RootKeyData msFVE-RecoveryPassword msFVE-KeyPackage msTPM-OwnerInformation msTPM-OwnerInformationTemp
    msPKIAccountCredentials msPKIDPAPIMasterKeys msPKI-CredentialRoamingTokens userPKCS12
    sambaNTPassword sambaLMPassword sambaPasswordHistory
    """
)
CREDENTIAL_PREFIXES: Final = ("mslaps-",)


def is_credential(name: str) -> bool:
    """Whether an attribute holds a secret, which is never read, shown, filtered or sorted by."""
    known = name.partition(";")[0].strip().lower()
    return known in CREDENTIAL_ATTRIBUTES or known.startswith(CREDENTIAL_PREFIXES)


_NAMES: Final = """
    S-1-0-0 Nobody
    S-1-1-0 Everyone
    S-1-2-0 Local
    S-1-2-1 Console Logon
    S-1-3-0 Creator Owner
    S-1-3-1 Creator Group
    S-1-3-2 Creator Owner Server
    S-1-3-3 Creator Group Server
    S-1-3-4 Owner Rights
    S-1-5-1 Dialup
    S-1-5-2 Network
    S-1-5-3 Batch
    S-1-5-4 Interactive
    S-1-5-6 Service
    S-1-5-7 Anonymous Logon
    S-1-5-8 Proxy
    S-1-5-9 Enterprise Domain Controllers
    S-1-5-10 Self
    S-1-5-11 Authenticated Users
    S-1-5-12 Restricted
    S-1-5-13 Terminal Server User
    S-1-5-14 Remote Interactive Logon
    S-1-5-15 This Organization
    S-1-5-17 IUSR
    S-1-5-18 System
    S-1-5-19 Local Service
    S-1-5-20 Network Service
    S-1-5-33 Write Restricted
    S-1-5-64-10 NTLM Authentication
    S-1-5-64-14 SChannel Authentication
    S-1-5-64-21 Digest Authentication
    S-1-5-65-1 This Organization Certificate
    S-1-5-80-0 All Services
    S-1-5-84-0-0-0-0-0 User-Mode Drivers
    S-1-5-113 Local Account
    S-1-5-114 Local Account and Member of Administrators
    S-1-5-1000 Other Organization
    S-1-15-2-1 All Application Packages
    S-1-16-0 Untrusted Mandatory Level
    S-1-16-4096 Low Mandatory Level
    S-1-16-8192 Medium Mandatory Level
    S-1-16-8448 Medium Plus Mandatory Level
    S-1-16-12288 High Mandatory Level
    S-1-16-16384 System Mandatory Level
    S-1-16-20480 Protected Process Mandatory Level
    S-1-16-28672 Secure Process Mandatory Level
    S-1-18-1 Authentication Authority Asserted Identity
    S-1-18-2 Service Asserted Identity
    S-1-18-3 Fresh Public Key Identity
    S-1-18-4 Key Trust Identity
    S-1-18-5 Key Property MFA
    S-1-18-6 Key Property Attestation
"""
WELL_KNOWN_SIDS: Final = dict(line.split(maxsplit=1) for line in _NAMES.strip().splitlines())
