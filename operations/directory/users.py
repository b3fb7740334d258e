"""Operations on users: those that every kind and every account has, password policy, passwords."""

from uuid import UUID

from core.call import Call
from core.operation import NO_INVERSE, Effect, RateCategory, Risk, Target, operation
from core.text.messages import message
from directory import errors
from directory.changes.passwords import propose_password_change, propose_reset
from directory.lookup.access import client_of, find_object
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicyJson, policy_of
from directory.queries.sign_in_report import SignInReport, read_sign_in_report
from directory.shapes.inputs import ChangePassword, CreateUser, PasswordReset, ResetPassword, UpdateAccount
from directory.shapes.kinds import RESOURCES
from directory.shapes.proposal import Proposal
from operations.directory.common_operations import declare_ordinary_operations

declare_ordinary_operations(
    "users",
    create=CreateUser,
    update=UpdateAccount,
    documentation={
        "create": "Create a user, disabled unless asked otherwise; an enabled one needs a password.",
        "update": "Update attributes and account options of a user, all in one atomic change.",
        "rename": """Give a user another name.

        Its sAMAccountName, userPrincipalName and displayName stay as they are.
        """,
    },
)


@operation(
    "users.read-password-policy",
    "GET ad/users/{id}/password-policy",
    "Read the password policy of {a user}",
    permission="directory.read_object",
    target=Target.OBJECT,
)
def read_password_policy(call: Call, *, id: UUID) -> PasswordPolicyJson:
    """Read the password and lock-out policy in force for a user: a fine-grained one, else the domain's."""
    entry = find_object(call, id, kinds=RESOURCES["users"].kinds, attributes=(RESULTANT_POLICY,))
    policy = policy_of(client_of(call), entry)
    if policy is None:  # by default only domain administrators may read fine-grained policies
        raise errors.DirectoryDenied(message("The gateway's own account may not read this policy."))
    return policy.as_json()


@operation(
    "users.read-sign-in-report",
    "GET ad/users/{id}/sign-in-report",
    "Read the sign-in report of {a user}",
    permission="directory.read_object",
    target=Target.OBJECT,
)
def read_sign_in(call: Call, *, id: UUID) -> SignInReport:
    """Read what keeps a user from signing in, with what each domain controller of the connection knows of it."""
    return read_sign_in_report(call, id)


@operation(
    "users.reset-password",
    "POST ad/users/{id}/reset-password",
    "Reset the password of {a user}",
    permission="directory.reset_password",
    target=Target.OBJECT,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    risk=Risk.SECURITY,
    rate=RateCategory.PASSWORD_RESET,
    output=PasswordReset,
)
def reset_password(call: Call, *, id: UUID, body: ResetPassword) -> Proposal:
    """Set a user's password, given or generated, without knowing the present one.

    The answer has a generated password once; if the reset waits for approval, the approver gets it instead.
    """
    body.require_one_password()
    return propose_reset(
        call,
        resource="users",
        id=id,
        new_password=body.new_password,
        must_change=body.must_change,
        unlock=body.unlock,
    )


@operation(
    "users.change-password",
    "POST ad/users/{id}/change-password",
    "Change the password of {a user}",
    permission="directory.change_password",
    target=Target.OBJECT,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    rate=RateCategory.PASSWORD_CHANGE,
)
def change_password(call: Call, *, id: UUID, body: ChangePassword) -> Proposal:
    """Change a user's password, knowing the present one; a wrong one counts towards the account's lock-out."""
    return propose_password_change(call, resource="users", id=id, current=body.current_password, new=body.new_password)
