"""What is known of attributes by their names alone, in lower case, since no syntax tells it.

Which large integers are points in time, which octet strings are GUIDs, and which attributes hold secrets.
"""

from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


# Points in time; the other large integers are durations (maxPwdAge), counters (uSNChanged) or bits.
FILETIME_ATTRIBUTES: Final = _names(
    """
    accountExpires badPasswordTime creationTime lastLogoff lastLogon lastLogonTimestamp lastSetTime lockoutTime
    priorSetTime pwdLastSet ms-Mcs-AdmPwdExpirationTime msDS-ApproximateLastLogonTimeStamp
    msDS-LastFailedInteractiveLogonTime msDS-LastSuccessfulInteractiveLogonTime msDS-UserPasswordExpiryTimeComputed
    msKds-CreateTime msKds-UseStartTime msLAPS-PasswordExpirationTime
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
# Passwords, keys and what they can be computed from ([MS-ADTS] 3.1.1.4.4 and the products that extend the schema).
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
    """Whether an attribute holds a secret: it is never read, shown, filtered or sorted by."""
    known = name.partition(";")[0].strip().lower()
    return known in CREDENTIAL_ATTRIBUTES or known.startswith(CREDENTIAL_PREFIXES)
