"""Which changes wait for a person."""

from typing import Any

import pytest

from approvals.supervision import Assessment, must_wait, risk_of, security_meaning
from core.call import SupervisionLevel
from core.operation import Effect, Operation, RateCategory, Risk, Target
from tests.approvals.proposals import make_proposal

EVERY, DANGEROUS, ACT = SupervisionLevel
ORDINARY, DESTRUCTIVE, SECURITY = Risk


@pytest.mark.parametrize(
    ("level", "risk", "waits"),
    [
        (EVERY, ORDINARY, True),
        (EVERY, DESTRUCTIVE, True),
        (EVERY, SECURITY, True),
        (DANGEROUS, ORDINARY, False),
        (DANGEROUS, DESTRUCTIVE, True),
        (DANGEROUS, SECURITY, True),
        (ACT, ORDINARY, False),
        (ACT, DESTRUCTIVE, False),
        (ACT, SECURITY, False),
        (None, ORDINARY, False),
        (None, DESTRUCTIVE, False),
        (None, SECURITY, False),
    ],
)
def test_what_waits_at_which_level(level: SupervisionLevel | None, risk: Risk, waits: bool) -> None:
    assert must_wait(level, risk) is waits


def _update_user() -> None:
    """Update a user."""


def an_operation(risk: Risk) -> Operation:
    return Operation(
        name="users.update",
        route="PATCH ad/users/{id}",
        label="Update {a user}",
        function=_update_user,
        permission=frozenset({"directory.update_user"}),
        requires=frozenset(),
        effect=Effect.CHANGE,
        target=Target.OBJECT,
        risk=risk,
        inverse="update",
        creates=False,
        rate=RateCategory.GLOBAL,
        query=None,
        body=None,
        output=None,
        surfaces=frozenset(),
        batchable=False,
    )


def assess(operation: Risk, **proposal: Any) -> Assessment:
    return risk_of(
        an_operation(operation),
        make_proposal(**proposal),
        is_confidential=lambda name: name == "corpBadgeSecret",
        protection_reason=lambda: "member of Domain Admins",
        look_alikes=tuple,
    )


@pytest.mark.parametrize(
    ("operation", "proposal", "expected"),
    [
        (ORDINARY, {}, ORDINARY),
        (ORDINARY, {"attributes": frozenset({"mail", "department"})}, ORDINARY),
        (DESTRUCTIVE, {}, DESTRUCTIVE),
        (ORDINARY, {"risk": DESTRUCTIVE}, DESTRUCTIVE),
        (SECURITY, {"risk": DESTRUCTIVE}, SECURITY),
        (DESTRUCTIVE, {"risk": SECURITY}, SECURITY),
        (ORDINARY, {"protected": True}, SECURITY),
        (DESTRUCTIVE, {"protected": True}, SECURITY),
        (ORDINARY, {"attributes": frozenset({"mail", "ServicePrincipalName"})}, SECURITY),
        (DESTRUCTIVE, {"attributes": frozenset({"corpBadgeSecret"})}, SECURITY),
    ],
)
def test_of_several_risks_the_greatest_counts(operation: Risk, proposal: dict, expected: Risk) -> None:
    found = assess(operation, **proposal)
    assert found.risk is expected
    assert bool(found.reasons) is (expected is not ORDINARY)
    decisive = [reason for reason in found.reasons if not reason.startswith("It is also a destructive change: ")]
    assert all(reason.startswith(f"This is a {expected} change: ") for reason in decisive)
    assert bool(decisive) is bool(found.reasons)


def test_the_reasons_begin_with_those_of_the_risk_that_counts() -> None:
    found = assess(
        DESTRUCTIVE, protected=True, attributes=frozenset({"mail", "servicePrincipalName", "corpBadgeSecret"})
    )
    assert found.reasons == (
        "This is a security change: the target is a protected object (member of Domain Admins).",
        "This is a security change: it writes corpBadgeSecret, which the schema marks confidential.",
        "This is a security change: it writes servicePrincipalName, by which an account is found when it signs in.",
        "It is also a destructive change: update a user.",
    )
    assert assess(ORDINARY, risk=SECURITY, risk_reason="it enables the account").reasons == (
        "This is a security change: it enables the account.",
    )


WELL_KNOWN = """
    userAccountControl servicePrincipalName sIDHistory adminCount primaryGroupID member groupType dNSHostName managedBy
    altSecurityIdentities scriptPath logonHours userWorkstations userParameters gPLink gPOptions
    msDS-AllowedToDelegateTo msDS-AllowedToActOnBehalfOfOtherIdentity msDS-KeyCredentialLink
    msDS-SupportedEncryptionTypes msDS-GroupMSAMembership msDS-HostServiceAccount msDS-PSOAppliesTo
"""
ITS_KIN = """
    nTSecurityDescriptor lockoutTime pwdLastSet unicodePwd userPassword msLAPS-Password msDS-AssignedAuthNPolicySilo
    msDS-ManagedAccountPrecededByLink msDS-DelegatedMSAState userCertificate;binary userPrincipalName sAMAccountName
    msPKI-Certificate-Name-Flag trustAttributes msDS-RevealOnDemandGroup ms-DS-MachineAccountQuota profilePath
    loginShell unixHomeDirectory homeDirectory homeDrive msTSInitialProgram msTSProfilePath msTSHomeDirectory
    msTSHomeDrive msTSWorkDirectory shadowExpire shadowLastChange shadowMax shadowInactive uidNumber gidNumber
    proxyAddresses flags versionNumber gPCFileSysPath gPCMachineExtensionNames gPCUserExtensionNames
"""
HARMLESS = """
    mail displayName description telephoneNumber department title manager info wWWHomePage employeeID
    msDS-cloudExtensionAttribute1 msDS-cloudExtensionAttribute20 msDS-PhoneticDisplayName msDS-PhoneticFirstName
    thumbnailPhoto extensionAttribute1 memberOfClub location physicalDeliveryOfficeName
"""


@pytest.mark.parametrize("name", WELL_KNOWN.split() + ITS_KIN.split())
def test_security_attributes(name: str) -> None:
    assert security_meaning(name)
    assert security_meaning(name.upper()) == security_meaning(f"{name};x-option") == security_meaning(name)


@pytest.mark.parametrize("name", HARMLESS.split())
def test_harmless_attributes(name: str) -> None:
    assert security_meaning(name) is None
