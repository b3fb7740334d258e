"""Operations on users: read, search, look-up by name, create, update, delete, enable, disable, unlock, move, rename."""

from uuid import UUID

from directory import errors
from directory.changes.accounts import propose_enabled, propose_unlocked
from directory.changes.create import NewAccount, propose_create
from directory.changes.delete import propose_delete
from directory.changes.move import propose_move, propose_rename
from directory.changes.passwords import propose_password_change, propose_reset
from directory.changes.update import propose_update
from directory.lookup.access import client_of, find_object, parse_reference
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicyJson, policy_of
from directory.queries.member_lists import MembershipQuery, list_groups
from directory.queries.reading import read_by_name, read_record
from directory.queries.searches.definitions import SEARCHES
from directory.queries.searches.search import SearchQuery, run_search
from directory.queries.sign_in_report import read_sign_in_report
from directory.queries.sign_in_shapes import SignInReport
from directory.shapes.inputs import (
    ByDnQuery,
    CreateUser,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    UpdateAccount,
)
from directory.shapes.kinds import KINDS_OF_RESOURCE
from directory.shapes.passwords import ChangePassword, PasswordReset, ResetPassword
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from gateway.core.call import Call, Surface
from gateway.core.operation import Effect, RateCategory, Risk, operation
from gateway.core.paging import Page


@operation(
    "users.search",
    "GET ad/users",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=SearchQuery,
    output=Page[DirectoryObject],
)
def search_users(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
    """Search users by text, filter and place."""
    return run_search(call, SEARCHES["users"], query)


@operation(
    "users.read-by-dn",
    "GET ad/users/by-dn",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ByDnQuery,
    output=DirectoryObject,
)
def read_user_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
    """Look up one user by distinguished name."""
    return read_by_name(call, query.dn, kinds=KINDS_OF_RESOURCE["users"], attributes=query.attributes)


@operation(
    "users.read", "GET ad/users/{id}", permission="directory.read_object", query=ReadQuery, output=DirectoryObject
)
def read_user(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
    """Read one user."""
    return read_record(call, id, kinds=KINDS_OF_RESOURCE["users"], attributes=query.attributes)


@operation(
    "users.read-password-policy",
    "GET ad/users/{id}/password-policy",
    permission="directory.read_object",
    output=PasswordPolicyJson,
)
def read_password_policy(call: Call, *, id: UUID) -> PasswordPolicyJson:
    """Read the password and lock-out policy in force for a user: a fine-grained one, else the domain's."""
    entry = find_object(call, id, kinds=KINDS_OF_RESOURCE["users"], attributes=(RESULTANT_POLICY,))
    policy = policy_of(client_of(call), entry)
    if policy is None:  # by default only administrators may read fine-grained ones
        raise errors.DirectoryDenied("The gateway's own account may not read this policy.")
    return policy.as_json()


@operation(
    "users.read-sign-in-report",
    "GET ad/users/{id}/sign-in-report",
    permission="directory.read_object",
    output=SignInReport,
    surfaces=frozenset({Surface.REST}),
)
def read_sign_in(call: Call, *, id: UUID) -> SignInReport:
    """Read what keeps a user from signing in, with what each domain controller of the connection knows of it."""
    return read_sign_in_report(call, id)


@operation(
    "users.create",
    "POST ad/users",
    permission="directory.create_user",
    effect=Effect.CHANGE,
    body=CreateUser,
    output=DirectoryObject,
    batchable=True,
)
def create_user(call: Call, *, body: CreateUser) -> Proposal:
    """Create a user, disabled unless asked otherwise; an enabled one needs a password."""
    return propose_create(
        call,
        object_class="user",
        name=body.name,
        parent=parse_reference(body.parent, pointer="#/parent"),
        updates=body,
        account=NewAccount(
            sam_account_name=body.sam_account_name,
            user_principal_name=body.user_principal_name,
            password=body.password,
            enabled=body.enabled,
            options=body.account,
        ),
    )


@operation(
    "users.update",
    "PATCH ad/users/{id}",
    permission="directory.update_user",
    effect=Effect.CHANGE,
    body=UpdateAccount,
    output=DirectoryObject,
    batchable=True,
)
def update_user(call: Call, *, id: UUID, body: UpdateAccount) -> Proposal:
    """Update attributes and account options of a user, all in one atomic change."""
    return propose_update(call, resource="users", id=id, updates=body, account=body.account)


@operation(
    "users.delete",
    "DELETE ad/users/{id}",
    permission="directory.delete_user",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    query=DeleteQuery,
    batchable=True,
)
def delete_user(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
    """Delete a user."""
    return propose_delete(call, resource="users", id=id, recursive=query.recursive)


@operation(
    "users.enable",
    "POST ad/users/{id}/enable",
    permission="directory.enable_account",
    effect=Effect.CHANGE,
    risk=Risk.SECURITY,
    output=DirectoryObject,
)
def enable_user(call: Call, *, id: UUID) -> Proposal:
    """Enable a user's account."""
    return propose_enabled(call, resource="users", id=id, enabled=True)


@operation(
    "users.disable",
    "POST ad/users/{id}/disable",
    permission="directory.disable_account",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    output=DirectoryObject,
)
def disable_user(call: Call, *, id: UUID) -> Proposal:
    """Disable a user's account."""
    return propose_enabled(call, resource="users", id=id, enabled=False)


@operation(
    "users.unlock",
    "POST ad/users/{id}/unlock",
    permission="directory.unlock_account",
    effect=Effect.CHANGE,
    output=DirectoryObject,
)
def unlock_user(call: Call, *, id: UUID) -> Proposal:
    """Unlock a user's account after too many wrong passwords."""
    return propose_unlocked(call, resource="users", id=id)


@operation(
    "users.move",
    "POST ad/users/{id}/move",
    permission="directory.move_object",
    effect=Effect.CHANGE,
    body=MoveObject,
    output=DirectoryObject,
)
def move_user(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
    """Move a user to another parent."""
    return propose_move(call, resource="users", id=id, parent=parse_reference(body.parent, pointer="#/parent"))


@operation(
    "users.rename",
    "POST ad/users/{id}/rename",
    permission="directory.update_user",
    effect=Effect.CHANGE,
    body=RenameObject,
    output=DirectoryObject,
)
def rename_user(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
    """Give a user another name.

    Its sAMAccountName, userPrincipalName and displayName stay as they are.
    """
    return propose_rename(call, resource="users", id=id, name=body.name)


@operation(
    "users.reset-password",
    "POST ad/users/{id}/reset-password",
    permission="directory.reset_password",
    effect=Effect.CHANGE,
    risk=Risk.SECURITY,
    rate=RateCategory.PASSWORD_RESET,
    body=ResetPassword,
    output=PasswordReset,
)
def reset_password(call: Call, *, id: UUID, body: ResetPassword) -> Proposal:
    """Set a user's password, given or generated, without knowing the present one.

    A generated password is told once, in the answer; of a reset that waits for approval, to its approver.
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
    permission="directory.change_password",
    effect=Effect.CHANGE,
    rate=RateCategory.PASSWORD_CHANGE,
    body=ChangePassword,
)
def change_password(call: Call, *, id: UUID, body: ChangePassword) -> Proposal:
    """Change a user's password, knowing the present one; a wrong one counts towards the account's lock-out."""
    return propose_password_change(call, resource="users", id=id, current=body.current_password, new=body.new_password)


@operation(
    "users.list-groups",
    "GET ad/users/{id}/groups",
    permission="directory.read_object",
    query=MembershipQuery,
    output=Page[DirectoryObject],
)
def list_groups_of_user(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """List the groups a user belongs to, the primary group included."""
    return list_groups(call, resource="users", id=id, query=query)
