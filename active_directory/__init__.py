"""The sealed LDAP layer: everything that speaks to a directory, and nothing about HTTP, permissions or a database.

This module exports what others may use; they never import the modules inside.
"""

from active_directory.background import Background, run_in_background
from active_directory.client import Client
from active_directory.codecs import (
    ValueType,
    datetime_to_filetime,
    decode,
    decoder,
    encode,
    filetime_to_datetime,
    guid_to_text,
    is_text,
    sid_to_text,
    text_to_guid,
    text_to_sid,
    value_type,
)
from active_directory.connections.connection import BindResult, Connection, ServerSettings, address_of, open_connection
from active_directory.connections.inspection import (
    Obstacle,
    ServerCheck,
    check_server,
    days_in_recycle_bin,
    find_obstacle,
    has_expiring_links,
    has_slow_broad_indexes,
    is_recycle_bin_enabled,
    is_samba,
    is_samba_root_dse,
    read_certificate,
)
from active_directory.connections.measurements import Listener, listen, note_asked, servers_asked, servers_asked_so_far
from active_directory.connections.pool import ONE_SERVER, Opener, PreferredController
from active_directory.constants import (
    AUTHENTICATED_USERS_SID,
    BUILTIN_DOMAIN_SID,
    CREDENTIAL_ATTRIBUTES,
    EVERYONE_SID,
    FILETIME_ATTRIBUTES,
    FILETIME_NEVER,
    FILETIME_TICKS_PER_SECOND,
    KEEPS_PASSWORD,
    PROTECTED_ACCOUNT_RIDS,
    PROTECTED_BUILTIN_RIDS,
    PROTECTED_DOMAIN_RIDS,
    WELL_KNOWN_SIDS,
    DomainRid,
    FunctionalLevel,
    GroupType,
    InstanceType,
    PasswordProperties,
    SearchFlags,
    SupportedEncryptionTypes,
    SystemFlags,
    UserAccountControl,
    is_credential,
)
from active_directory.descriptor import (
    CONTROL_ACCESS_RIGHT_ATTRIBUTES,
    CONTROL_ACCESS_RIGHT_CLASS,
    FULL_CONTROL,
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Acl,
    ControlFlags,
    MalformedDescriptor,
    ObjectType,
    ObjectTypes,
    SecurityDescriptor,
    Subject,
    descriptor_in,
    flag_names,
    is_protected_from_deletion,
    map_generic,
    parse_descriptor,
    right_names,
)
from active_directory.dn import (
    MANGLED,
    DistinguishedName,
    case_insensitive_pattern,
    comparable,
    escape_rdn_value,
    fold_case,
    guid_reference,
    linked_object,
    make_rdn,
    may_refer,
    names_in,
    replace_names,
    tagged_name,
)
from active_directory.entry import NO_IDENTITIES, Entry, pack_versions
from active_directory.errors import (
    AccessDenied,
    AlreadyExists,
    BadCredentials,
    CurrentPasswordWrong,
    DirectoryFault,
    FilterError,
    InvalidReference,
    InvalidValue,
    LdapError,
    LimitExceeded,
    NotEmpty,
    NotFound,
    OutcomeUnknown,
    PasswordPolicy,
    ProtocolError,
    TlsError,
    Unavailable,
    UnwillingToPerform,
    VersionConflict,
    error_from,
)
from active_directory.event_loop import (
    Begun,
    Done,
    WouldBlock,
    is_on_loop,
    require_condition,
    require_thread,
    run_on_loop,
    set_condition,
    wait_for,
)
from active_directory.filter_values import incomparable_reason, read_values
from active_directory.filters import (
    ANYTHING,
    BIT_AND,
    BIT_OR,
    IN_CHAIN,
    And,
    Anr,
    AnyGuid,
    ApproximatelyEquals,
    BitAnd,
    BitOr,
    Contains,
    EndsWith,
    Equals,
    Extensible,
    Filter,
    FilterSyntax,
    GreaterOrEqual,
    InChain,
    LessOrEqual,
    Not,
    Or,
    Present,
    StartsWith,
    Substrings,
)
from active_directory.filters import Value as FilterValue
from active_directory.filters import parse as parse_filter
from active_directory.json_templates import HEXADECIMAL, MOMENT
from active_directory.json_templates import Part as JsonPart
from active_directory.json_templates import Template as JsonTemplate
from active_directory.json_templates import given as given_part
from active_directory.json_templates import part_of as json_part
from active_directory.json_templates import template_of as json_template
from active_directory.schema import AttributeType, ClassCategory, ObjectClass, Schema, Syntax
from active_directory.sddl import MalformedSddl, NotExpressible, parse_sddl, render_sddl
from active_directory.streaming import Scope, answers_are_compiled
from active_directory.writes import (
    Add,
    Delete,
    LateAnswers,
    Modification,
    Modify,
    Rename,
    StillUnderWay,
    Write,
    Written,
    name_by_guid,
    quoted_password,
    reanimate,
    swap,
)
