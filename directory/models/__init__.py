"""The tables of the directory app. Directory objects themselves are never stored."""

from directory.models.connections import BindPassword, DirectoryConnection, DirectoryPermission, PasswordAttempt
from directory.models.filters_and_templates import ChangeTemplate, SavedFilter
from directory.models.membership_rules import MembershipRule
from directory.models.runs import AccountResult, Plan, Run, RunLease
