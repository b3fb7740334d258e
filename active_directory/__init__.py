"""The sealed LDAP layer: everything that speaks to a directory, nothing that knows HTTP, permissions or a database.

Whatever others need of it is named here; none of them imports its modules.
"""

from active_directory.answers import answers_are_compiled
from active_directory.attribute_names import (
    CREDENTIAL_ATTRIBUTES,
    FILETIME_ATTRIBUTES,
    is_credential,
)
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
    text_to_sid,
    value_type,
)
from active_directory.comparison import comparable, fold, pattern_of
from active_directory.connections.authentication import BindResult
from active_directory.connections.connection import Connection, address_of, open_connection
from active_directory.connections.measurements import Listener, listen
from active_directory.connections.pool import Opener
from active_directory.connections.preferred_controller import ONE_SERVER, Agreement
from active_directory.connections.reachability import Obstacle, find_obstacle, read_certificate
from active_directory.connections.servers_asked import note_asked, servers_asked, servers_asked_so_far
from active_directory.connections.settings import ServerSettings
from active_directory.dn import MANGLED, DistinguishedName, escape_rdn_value, guid_reference, make_rdn
from active_directory.entry import NO_IDENTITIES, Entry
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
    Refused,
    TlsError,
    Unavailable,
    VersionConflict,
    error_from,
)
from active_directory.filters.parser import parse as parse_filter
from active_directory.filters.tree import (
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
from active_directory.filters.tree import Value as FilterValue
from active_directory.flags import (
    BUILTIN_DOMAIN_SID,
    EVERYONE_SID,
    FILETIME_NEVER,
    FILETIME_TICKS_PER_SECOND,
    KEEPS_PASSWORD,
    PROTECTED_ACCOUNT_RIDS,
    PROTECTED_BUILTIN_RIDS,
    PROTECTED_DOMAIN_RIDS,
    DomainRid,
    FunctionalLevel,
    GroupType,
    InstanceType,
    PasswordProperties,
    SearchFlags,
    SupportedEncryptionTypes,
    SystemFlags,
    UserAccountControl,
)
from active_directory.inspection import (
    ServerCheck,
    check_server,
    days_in_recycle_bin,
    is_recycle_bin_enabled,
    is_samba,
    says_samba,
)
from active_directory.references import by_identity, may_refer, names_in, tagged_name, with_names
from active_directory.schema import AttributeType, ClassCategory, ObjectClass, Schema, Syntax
from active_directory.security.descriptor import (
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Acl,
    Control,
    MalformedDescriptor,
    SecurityDescriptor,
    is_protected_from_deletion,
    parse_descriptor,
)
from active_directory.security.rights import (
    CONTROL_ACCESS_RIGHT_ATTRIBUTES,
    CONTROL_ACCESS_RIGHT_CLASS,
    FULL_CONTROL,
    ObjectType,
    ObjectTypes,
    Subject,
    flag_names,
    map_generic,
    right_names,
)
from active_directory.security.sddl import MalformedSddl, NotExpressible, parse_sddl, render_sddl
from active_directory.security.well_known_sids import WELL_KNOWN_SIDS
from active_directory.streaming import Scope
from active_directory.writes.changes import Add, Delete, Modification, Modify, Rename, Write, quoted_password, swap
from active_directory.writes.late import LateAnswers, StillUnderWay
from active_directory.writes.pipeline import Written
from active_directory.writes.reanimation import reanimate
