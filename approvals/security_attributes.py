"""The attributes whose change is a security change: all that grants, delegates or changes authentication.

The names that section 7 of the contract gives, and their kin. Sources: MS-ADA1 to MS-ADA3 (attributes), MS-ADTS,
MS-KILE and MS-PKCA (how they are used), MS-CRTD (certificate templates). To the list comes whatever a directory's own
schema marks confidential; that is the caller's to ask. Attributes with a longer name that merely begin alike
(`msDS-cloudExtensionAttribute1`, `msDS-PhoneticDisplayName`) are not on it.
"""

from audit.redact import is_credential

_ACCOUNT_CONTROL = """
    userAccountControl lockoutTime badPwdCount pwdLastSet logonHours userWorkstations logonWorkstation
    userParameters msNPAllowDialin msNPCallingStationID msRADIUSServiceType msTSAllowLogon
    msDS-UserAccountDisabled msDS-UserDontExpirePassword msDS-UserPasswordExpired msDS-UserPasswordNotRequired
    ms-DS-UserEncryptedTextPasswordAllowed ms-Mcs-AdmPwdExpirationTime otherLoginWorkstations
"""
# By these an account is found and told from others when it signs in, by Kerberos, certificate or federation.
_SIGN_IN_NAMES = """
    sAMAccountName userPrincipalName servicePrincipalName dNSHostName altSecurityIdentities
    msDS-AdditionalSamAccountName msDS-AdditionalDnsHostName msDS-AllowedDNSSuffixes msDS-SPNSuffixes uPNSuffixes
    mS-DS-ConsistencyGuid msDS-ExternalDirectoryObjectId msDS-cloudAnchor sPNMappings
"""
_KEYS_AND_CERTIFICATES = """
    msDS-KeyCredentialLink msDS-KeyMaterial msDS-KeyUsage msDS-KeyPrincipal userCertificate userCert
    userSMIMECertificate sshPublicKey ldapPublicKey msDS-SupportedEncryptionTypes msDS-CustomKeyInformation
    mSMQSignCertificates mSMQSignCertificatesMig mSMQDigests mSMQDigestsMig mSMQSignKey mSMQEncryptKey
    msDRM-IdentityCertificate privateKey
"""
_DELEGATION = """
    msDS-AllowedToDelegateTo msDS-AllowedToActOnBehalfOfOtherIdentity managedBy msExchCoManagedByLink publicDelegates
    msExchDelegateListLink msExchMasterAccountSid msDS-RegisteredOwner msDS-RegisteredUsers msDS-DeviceTrustType
    msDS-IsEnabled msDS-IsManaged msDS-IsCompliant
"""
_MEMBERSHIP_AND_RIGHTS = """
    member groupType primaryGroupID adminCount sIDHistory objectSid nTSecurityDescriptor defaultSecurityDescriptor
    msExchMailboxSecurityDescriptor fRSRootSecurity attributeSecurityGUID searchFlags schemaFlagsEx rightsGuid
    validAccesses appliesTo msDS-ShadowPrincipalSid msDS-OIDToGroupLink msDS-NonMembers
    msDS-MembersForAzRole msDS-TasksForAzRole msDS-OperationsForAzRole msDS-AzLDAPQuery msDS-AzBizRule
    msDS-TasksForAzTask msDS-OperationsForAzTask msExchRoleLink msExchUserLink msDFS-LinkSecurityDescriptorv2
    uniqueMember nonSecurityMember nTGroupMembers groupMembershipSAM privilegeHolder
"""
# Identity and membership on Unix hosts that ask the directory.
_UNIX = """
    uid uidNumber gidNumber memberUid msSFU30Name msSFU30PosixMember msSFU30PosixMemberOf memberNisNetgroup
    nisNetgroupTriple sudoUser sudoHost sudoCommand sudoOption sudoRunAs sudoRunAsUser sudoRunAsGroup
"""
_SERVICE_ACCOUNTS = """
    msDS-GroupMSAMembership msDS-HostServiceAccount msDS-ManagedPasswordId msDS-ManagedPasswordPreviousId
    msDS-ManagedPasswordInterval msDS-DelegatedMSAState msDS-ManagedAccountPrecededByLink
    msDS-SupersededManagedAccountLink msDS-SupersededServiceAccountState
"""
# Code that runs for whoever signs in, or on the machine.
_RUN_AT_SIGN_IN = """
    scriptPath profilePath msTSInitialProgram msTSProfilePath gPLink gPOptions gPCFileSysPath gPCMachineExtensionNames
    gPCUserExtensionNames gPCWQLFilter msWMI-Parm2 msWMI-Query msDS-UpdateScript ipsecData eFSPolicy publicKeyPolicy
    msiScript msiScriptPath msiFileList setupCommand netbootMachineFilePath netbootMirrorDataFile netbootSIFFile
    bootFile
"""
_DOMAIN_AND_LOCKOUT_POLICY = """
    msDS-PSOAppliesTo msDS-PasswordSettingsPrecedence msDS-PasswordReversibleEncryptionEnabled
    msDS-PasswordHistoryLength msDS-PasswordComplexityEnabled msDS-MinimumPasswordLength msDS-MinimumPasswordAge
    msDS-MaximumPasswordAge msDS-LockoutThreshold msDS-LockoutObservationWindow msDS-LockoutDuration
    minPwdLength minPwdAge maxPwdAge pwdProperties pwdHistoryLength lockoutThreshold lockoutDuration
    lockOutObservationWindow forceLogoff msDS-ExpirePasswordsOnSmartCardOnlyAccounts ms-DS-MachineAccountQuota
    msDS-PerUserTrustQuota msDS-PerUserTrustTombstonesQuota msDS-AllUsersTrustQuota dSHeuristics
    msDS-Behavior-Version msDS-EnabledFeature wellKnownObjects otherWellKnownObjects fSMORoleOwner nTMixedDomain
    maxTicketAge minTicketAge maxRenewAge rIDAvailablePool
"""
_AUTHENTICATION_POLICIES = """
    msDS-AssignedAuthNPolicy msDS-AssignedAuthNPolicySilo msDS-AuthNPolicySiloMembers msDS-AuthNPolicyEnforced
    msDS-AuthNPolicySiloEnforced msDS-UserAuthNPolicy msDS-ComputerAuthNPolicy msDS-ServiceAuthNPolicy
    msDS-UserAllowedToAuthenticateTo msDS-UserAllowedToAuthenticateFrom msDS-ComputerAllowedToAuthenticateTo
    msDS-ServiceAllowedToAuthenticateTo msDS-ServiceAllowedToAuthenticateFrom msDS-UserTGTLifetime
    msDS-ComputerTGTLifetime msDS-ServiceTGTLifetime msDS-UserAllowedNTLMNetworkAuthentication
    msDS-ServiceAllowedNTLMNetworkAuthentication msDS-StrongNTLMPolicy
"""
_CLAIMS_AND_CENTRAL_ACCESS = """
    msDS-ClaimAttributeSource msDS-ClaimSource msDS-ClaimSourceType msDS-ClaimPossibleValues
    msDS-ClaimTypeAppliesToClass msDS-TransformationRules msDS-IngressClaimsTransformationPolicy
    msDS-EgressClaimsTransformationPolicy msDS-MembersOfResourcePropertyList msAuthz-CentralAccessPolicyID
    msAuthz-EffectiveSecurityPolicy msAuthz-ProposedSecurityPolicy msAuthz-LastEffectiveSecurityPolicy
    msAuthz-ResourceCondition msAuthz-MemberRulesInCentralAccessPolicy
"""
_CERTIFICATE_SERVICES = """
    cACertificate crossCertificatePair authorityRevocationList certificateRevocationList deltaRevocationList
    certificateTemplates pKIEnrollmentAccess msDS-IssuerCertificates msDS-IssuerPublicCertificates
    msDS-CloudIssuerPublicCertificates
    pKIExtendedKeyUsage pKICriticalExtensions pKIDefaultKeySpec msPKI-Certificate-Name-Flag msPKI-Enrollment-Flag
    msPKI-Private-Key-Flag msPKI-RA-Signature msPKI-RA-Policies msPKI-RA-Application-Policies
    msPKI-Certificate-Application-Policy msPKI-Certificate-Policy msPKI-Template-Schema-Version
"""
_TRUSTS_AND_DOMAIN_CONTROLLERS = """
    trustAttributes trustDirection trustType trustPartner trustPosixOffset securityIdentifier msDS-TrustForestTrustInfo
    msDS-RevealOnDemandGroup msDS-NeverRevealGroup msDS-KrbTgtLink msDS-SecondaryKrbTgtNumber serverReference dnsRecord
    trustParent rootTrust additionalTrustedServiceNames dNSProperty msDNS-SigningKeys msDNS-SigningKeyDescriptors
"""

_MEANINGS = {
    _ACCOUNT_CONTROL: "which decides whether and how an account signs in",
    _SIGN_IN_NAMES: "by which an account is found when it signs in",
    _KEYS_AND_CERTIFICATES: "with which an account signs in",
    _DELEGATION: "which lets somebody act for others or manage them",
    _MEMBERSHIP_AND_RIGHTS: "which grants membership or rights",
    _UNIX: "which gives identity or membership on Unix hosts",
    _SERVICE_ACCOUNTS: "which decides who may use a service account",
    _RUN_AT_SIGN_IN: "which decides what runs at sign-in or on the machine",
    _DOMAIN_AND_LOCKOUT_POLICY: "a part of the domain's security policy",
    _AUTHENTICATION_POLICIES: "a part of an authentication policy",
    _CLAIMS_AND_CENTRAL_ACCESS: "from which access is decided",
    _CERTIFICATE_SERVICES: "which decides what certificates are issued or trusted",
    _TRUSTS_AND_DOMAIN_CONTROLLERS: "on which trusts or domain controllers rest",
}

SECURITY_ATTRIBUTES = {name.lower(): meaning for group, meaning in _MEANINGS.items() for name in group.split()}
"""What each of them is for, by its name in lower case: attribute names do not differ by case."""


def meaning_of(name: str) -> str | None:
    """What makes an attribute security, in words; None for one that is not on the list.

    A credential always is. Options (`userCertificate;binary`) do not matter.
    """
    if is_credential(name):
        return "a credential"
    return SECURITY_ATTRIBUTES.get(name.partition(";")[0].strip().lower())
