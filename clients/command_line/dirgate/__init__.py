"""`dirgate`: the Directory Management Gateway from a terminal. It needs Python alone, neither Django nor LDAP.

Every operation of the published OpenAPI document, `api.json`, is a command, with its parameters and its body's members
as options; so a new operation is a new command without a line here.
"""

__version__ = "0.2.2"
