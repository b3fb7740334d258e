"""The tables of the directory app. Directory objects themselves are never stored."""

from directory.models.bind_passwords import BindPassword
from directory.models.change_templates import ChangeTemplate
from directory.models.connections import DirectoryConnection, DirectoryPermission
from directory.models.password_attempts import PasswordAttempt
from directory.models.runs import AccountResult, Plan, Run, RunLease
from directory.models.saved_filters import SavedFilter
