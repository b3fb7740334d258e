"""What schemathesis takes for failures of the gateway and is none, each with the reason.

A line is about one code of schemathesis, one of the gateway's problems and, where that says little, words of its
detail: a limit that the schema should tell shows as a failure all the same.
"""

from tests.support.fuzzing import Accepted

REFUSED = "ST202"
"""A request that the schema allows was refused."""
NOT_REFUSED = "ST201"
"""A request that the schema forbids was answered as if it were none."""

UNAVAILABLE = "ST101"
"""The answer has a status of 5xx."""

ACCEPTED = (
    # What only the directory knows: its schema, its objects, its policies.
    Accepted(REFUSED, "AD.Attributes.Unknown", "which attributes there are, the directory's schema tells"),
    Accepted(REFUSED, "AD.Attributes.NotReadable", "some attributes hold secrets, whatever a list names"),
    Accepted(REFUSED, "AD.Attributes.NotWritable", "some attributes are the directory's own"),
    Accepted(REFUSED, "AD.Attributes.SingleValued", "which attributes have one value, the directory's schema tells"),
    Accepted(REFUSED, "AD.Attributes.InvalidValue", "an attribute's syntax is the directory's"),
    Accepted(REFUSED, "AD.Attributes.SchemaViolation", "what a class must and may have, the directory's schema tells"),
    Accepted(REFUSED, "AD.Directory.Rejected", "what a class may hold and where it may stand, the directory tells"),
    Accepted(REFUSED, "AD.Password.PolicyViolation", "the domain's policy judges passwords"),
    Accepted(REFUSED, "AD.Password.CurrentWrong", "which password is right, no schema tells"),
    Accepted(REFUSED, "AD.Object.VersionMismatch", "whether If-Match holds, the object's version tells"),
    Accepted(REFUSED, "Request.Invalid", "object classes are those of the directory", "is no structural class"),
    Accepted(UNAVAILABLE, "AD.Directory.Unavailable", "one connection names a domain controller that is none"),
    Accepted(REFUSED, "Search.FilterInvalid", "what an attribute's values look like, the directory's schema tells"),
    Accepted(REFUSED, "AD.Filter.Unsupported", "what can be searched for, the directory's schema tells"),
    Accepted(REFUSED, "Request.Invalid", "which names are a directory's, its base tells", "#/scopes/"),
    Accepted(REFUSED, "Request.Invalid", "what a value looks like, its attribute tells", "value: is no value of"),
    # What only the gateway's own tables know, and people.
    Accepted(REFUSED, "Request.Invalid", "who there is", "#/owner: there is no such person"),
    Accepted(REFUSED, "Request.Invalid", "which roles there are", "#/role: there is no such role"),
    Accepted(REFUSED, "Request.Invalid", "which connections there are", "#/directory: there is no such directory"),
    Accepted(REFUSED, "Request.Invalid", "nobody grants what they have not", "is no permission to grant"),
    Accepted(REFUSED, "Request.Invalid", "passwords are judged by several rules", "#/password: Th"),
    Accepted(REFUSED, "Request.Invalid", "what can be done with an object, its kind tells", "must be one of"),
    Accepted(REFUSED, "Request.Invalid", "who may decide, the request tells", "is nobody who may decide this change"),
    Accepted(REFUSED, "Request.Invalid", "what a role may see decides", "cannot be searched for inside scopes"),
    Accepted(REFUSED, "Request.Invalid", "what time it is, no schema tells", "must be in the future"),
    # Grammars that a pattern cannot hold.
    Accepted(REFUSED, "AD.Filter.Malformed", "an LDAP filter is nested (RFC 4515)"),
    Accepted(REFUSED, "Search.CursorInvalid", "a cursor is one that was given, sealed"),
    Accepted(REFUSED, "Request.Invalid", "names have a grammar (RFC 4514)", "must be a UUID or a distinguished name"),
    Accepted(REFUSED, "Request.Invalid", "names have a grammar (RFC 4514)", "dn: must be a distinguished name"),
    Accepted(REFUSED, "Request.Invalid", "it is counted without its percent-encoding", "X-Change-Reason is longer"),
    Accepted(REFUSED, "Request.Invalid", "a pattern cannot hold every character", "reason contains control characters"),
    Accepted(REFUSED, "Request.Invalid", "addresses have a grammar", "#/allowedAddresses"),
    Accepted(REFUSED, "Request.Invalid", "addresses of people have a grammar", "#/email: This is not"),
    Accepted(REFUSED, "Request.Invalid", "certificates have a grammar", "This is not a certificate"),
    Accepted(REFUSED, "Request.Invalid", "names have a grammar (RFC 4514)", "This is not a distinguished name"),
    Accepted(REFUSED, "Request.Invalid", "addresses of servers have a grammar", "must be ldaps://"),
    Accepted(REFUSED, "Request.Invalid", "user names have a grammar", "#/username: Enter a valid username."),
    Accepted(REFUSED, "Request.Invalid", "a text of spaces is none", "#/comment: must not be blank"),
    Accepted(REFUSED, "Request.Invalid", "a text of spaces is none", "This field cannot be blank."),
    Accepted(REFUSED, "Request.Invalid", "1.0 is an integer of JSON Schema, and none here", "#/graceSeconds: Input"),
    Accepted(REFUSED, "Request.Invalid", "Unicode tells which characters are seen", "characters that are not seen"),
    Accepted(REFUSED, "Request.Invalid", "addresses have a grammar (RFC 3986)", "#/redirectUris/"),
    Accepted(REFUSED, "Request.Invalid", "a name of spaces is none", "must have 1 to 64 characters"),
    Accepted(REFUSED, "Request.Invalid", "a user's account name is the shortest", "must have 1 to 20 characters"),
    Accepted(REFUSED, "Request.Invalid", "some characters are none of account names", "must not contain"),
    # Members that depend on each other: unions of all their combinations make clients that nobody can read.
    Accepted(REFUSED, "AD.Attributes.Conflict", "an attribute may be in one of two updates"),
    Accepted(REFUSED, "Request.Invalid", "each server once, whatever its case", "The same server is listed twice."),
    Accepted(REFUSED, "Request.Invalid", "nobody is added and removed at once", "is also in the list to add"),
    Accepted(REFUSED, "Request.Invalid", "one of two members", "give exactly one of newPassword"),
    Accepted(REFUSED, "Request.Invalid", "a header and a parameter say the same", "reason is given twice"),
    Accepted(REFUSED, "Request.Invalid", "whoever says no says why", "a rejection needs a comment"),
    Accepted(REFUSED, "Request.Invalid", "some lists are sorted by words of their own", "sort: Input should be"),
    Accepted(REFUSED, "Request.Invalid", "some account states have no days", "days: the state"),
    # A batch is accepted, and each of its items judged: what is wrong with one is told in the answer's results.
    *(
        Accepted(NOT_REFUSED, code, "an item's fault is no fault of the batch")
        for code in (
            *("Request.Invalid", "Request.UnknownMember", "AD.Object.NotFound", "AD.Attributes.Unknown"),
            *("AD.Attributes.NotWritable", "AD.Attributes.InvalidValue", "AD.Attributes.Conflict"),
        )
    ),
)
