"""The sections of the configuration with their keys; docs/configuration.md is made from the descriptions."""

from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    field_validator,
    model_validator,
)


def _require_network(value: str) -> str:
    ip_network(value)  # refuses host bits in a block, which are usually a typing error
    return value


_TAKEN_SCHEMES = frozenset(
    "about blob data file ftp http https javascript ldap ldaps mailto smb tel vbscript view-source ws wss".split()
)
"""Browsers and their machines act on these themselves: they lead to no program that has asked for a sign-in."""


def _require_private(scheme: str) -> str:
    if scheme in _TAKEN_SCHEMES:
        raise ValueError("must be the scheme of a program of its own")
    return scheme


Network = Annotated[str, AfterValidator(_require_network)]
PositiveSeconds = Annotated[float, Field(gt=0, le=3600)]
AttributeName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]
LetterInAccountNames = Annotated[str, StringConstraints(pattern=r"^[^=A-Z]=[a-z0-9-]*$")]
"""A letter and how it is written: `ü=ue`."""
PrivateScheme = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9+.-]*$"), AfterValidator(_require_private)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WebSection(Section):
    Host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address at which `gateway web` listens. On hosts behind a proxy elsewhere, the one it reaches.",
    )
    CertificateFile: str = Field(
        "", description="Certificate (PEM, with its chain) for TLS between a proxy elsewhere and this host."
    )
    KeyFile: str = Field("", description="Its private key. `systemctl restart gateway-web` reads both anew.")
    Threads: PositiveInt = Field(8, description="Requests that one web process answers at once.")
    ThreadsPerCredential: Annotated[int, Field(ge=0)] = Field(
        0,
        description="Requests of one key, token or session that a process answers at once, so that it cannot hold up "
        "everybody else. 0: half of `Web:Threads`.",
    )
    RequestSeconds: PositiveSeconds = Field(
        300,
        description="Seconds after which a request starts no new work: the rest of a batch is 503, untried. What was "
        "already sent to a domain controller is still waited for.",
    )
    SendSeconds: PositiveSeconds = Field(
        60, description="Seconds after which a client that does not read its answer is disconnected."
    )


class RequestLimitsSection(Section):
    MaxBodyBytes: PositiveInt = Field(1_048_576, description="Largest request body in bytes, except for batches.")
    MaxBatchBodyBytes: PositiveInt = Field(10_485_760, description="Largest request body of a batch in bytes.")
    BodySeconds: PositiveSeconds = Field(
        20, description="Seconds for a request body to arrive, and one more for each 64 KiB that have arrived."
    )


class RateLimit(Section):
    Requests: PositiveInt = Field(description="Requests allowed in a window.")
    WindowSeconds: PositiveInt = Field(description="Length of the window.")


class PathRateLimit(RateLimit):
    Path: str = Field(pattern="^/", description="A path, `*` standing for any characters.")


class RateLimitingSection(Section):
    Enabled: bool = Field(True, description="Whether requests are limited.")
    Global: RateLimit = Field(
        RateLimit(Requests=300, WindowSeconds=60), description="Every request, per client address."
    )
    DirectorySearch: RateLimit = Field(
        RateLimit(Requests=60, WindowSeconds=60), description="Searches and look-ups, per client address."
    )
    BatchItems: RateLimit = Field(
        RateLimit(Requests=20_000, WindowSeconds=60),
        description="Items of batches, per credential. Each ten values of a list in a body count as one more.",
    )
    PasswordReset: RateLimit = Field(
        RateLimit(Requests=5, WindowSeconds=60), description="Password resets, per client address."
    )
    PasswordChange: RateLimit = Field(
        RateLimit(Requests=3, WindowSeconds=300), description="Password changes, per target account."
    )
    WrongPasswordTargets: RateLimit = Field(
        RateLimit(Requests=50, WindowSeconds=3600),
        description="Accounts for which wrong present passwords may be given, per credential.",
    )
    Paths: tuple[PathRateLimit, ...] = Field(
        (),
        description="Limits for single paths. The path with the longest literal part takes the place of the category: "
        '`[{"Path": "/api/ad/users/*", "Requests": 10, "WindowSeconds": 60}]`.',
    )


class ForwardedHeadersSection(Section):
    KnownProxies: tuple[Network, ...] = Field(
        (), description="Addresses and CIDR blocks of reverse proxies whose `X-Forwarded-For` is believed."
    )


class DirectorySection(Section):
    SubtreeSeconds: PositiveSeconds = Field(
        60,
        description="Seconds for which the answer to a rename, a move or the deletion of a tree is waited for, beyond "
        "OperationSeconds, before the caller is told that it is still under way (504).",
    )
    ConnectSeconds: PositiveSeconds = Field(
        5, description="Seconds for connecting to a domain controller, TLS included."
    )
    OperationSeconds: PositiveSeconds = Field(20, description="Seconds for one answer of a domain controller.")
    OwnerCheckGraceMinutes: Annotated[int, Field(ge=1, le=1440)] = Field(
        15,
        description="For how many minutes (1–1440) people of a directory that does not answer, and their keys, go on.",
    )
    PoolSize: Annotated[int, Field(ge=2)] = Field(
        8, description="LDAP connections per process and directory; at least 2, because a batch reads while it writes."
    )
    StickySeconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        60,
        description="For how long (0–3600) after a write all hosts use the domain controller that took it, where a "
        "directory has several. Longer than replication takes between them; 0 turns it off.",
    )


class SearchesSection(Section):
    MaxTerms: PositiveInt = Field(250, description="Comparisons in one filter.")
    MaxComparisons: PositiveInt = Field(
        100,
        description="Comparisons in one filter that use no index: a name counts 6, a part of a substring 2, `anr` 10.",
    )
    MaxInChainTerms: Annotated[int, Field(ge=0)] = Field(
        3, description="Terms of one filter that follow a chain of links (`LDAP_MATCHING_RULE_IN_CHAIN`)."
    )
    ExpensiveSeconds: Annotated[int, Field(ge=1, le=120)] = Field(
        1,
        description="Seconds that a domain controller may spend on an expensive search (1–120). Raise it for filters "
        "that follow chains of other links than memberships.",
    )
    WaitSeconds: Annotated[float, Field(ge=0, le=20)] = Field(
        5, description="Seconds that a search waits for another one of the same credential before it answers 429."
    )


class RunsSection(Section):
    WaitSeconds: Annotated[float, Field(ge=0, le=300)] = Field(
        30, description="Seconds that a request waits for its run before it answers 202."
    )


class ApprovalsSection(Section):
    ExpireAfterHours: PositiveInt = Field(168, description="Hours after which an undecided change expires.")
    ApplyWithinHours: PositiveInt = Field(
        24, description="Hours after which an approved change that no worker could apply ends as `failed`."
    )
    ProtectedNeedsTwo: bool = Field(False, description="Whether changes of protected objects need two approvers.")
    AccessNeedsTwo: bool = Field(
        False, description="Whether a second person has to agree before a key or a person may do more."
    )
    IssuerBarDays: Annotated[int, Field(ge=0, le=366)] = Field(
        30,
        description="Days for which these people may not decide the changes of a key: whoever issued or widened the "
        "key, and people whose account the requester created or changed. 0 lets them.",
    )
    ConfirmSecondFactor: bool = Field(
        False, description="Whether approving asks for the second factor again if the person has one."
    )
    NotifyByEmail: bool = Field(
        True,
        description="Whether approvers and requesters with an e-mail address are notified by e-mail. Every subject "
        "begins with `[Directory gateway]`.",
    )
    BaseUrl: str = Field(
        "",
        pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?$",
        description="Address at which people reach the console, for links in e-mails.",
    )


class SchedulesSection(Section):
    MaxDays: Annotated[int, Field(ge=1, le=366)] = Field(
        366, description="Days ahead that a change may begin, or end, at most."
    )
    GraceHours: PositiveInt = Field(
        24,
        description="Hours after its time within which a change for later may still be approved: it is made at once "
        "then. After that the request expires.",
    )


class SupervisionSection(Section):
    SecurityAttributes: tuple[AttributeName, ...] = Field(
        (),
        description="Directory attributes whose change counts as a security change, besides "
        "[those the gateway knows](security-attributes.md): your own attributes, or `mail` if people sign in by it.",
    )


class Budget(Section):
    DestructiveChangesPerHour: NonNegativeInt | None = Field(None, description="Destructive changes in an hour.")
    DestructiveChangesPerDay: NonNegativeInt | None = Field(None, description="Destructive changes in a day.")
    SecurityChangesPerHour: NonNegativeInt | None = Field(None, description="Security changes in an hour.")
    SecurityChangesPerDay: NonNegativeInt | None = Field(None, description="Security changes in a day.")

    def __str__(self) -> str:
        return " ".join(f"{name}={limit}" for name, limit in self if limit is not None) or "no limits"


class BudgetsSection(Section):
    Key: Budget = Field(
        Budget(),
        description="The [budget](api.md#budgets) of each API key that has none of its own: `[Budgets.Key] "
        "DestructiveChangesPerHour = 50`, likewise `DestructiveChangesPerDay`, `SecurityChangesPerHour` and "
        "`SecurityChangesPerDay`. Further changes wait for a person.",
    )
    Agent: Budget = Field(Budget(), description="The same for each agent of each person.")
    Directory: Budget = Field(Budget(), description="The same for all changes of a directory together, whoever asks.")


class ScopesSection(Section):
    OutsideReferences: tuple[AttributeName, ...] = Field(
        (),
        description="Attributes in which callers with [scopes](api.md#scopes) see, find and set references to objects "
        "outside of these, such as `manager`. Members stay inside in any case.",
    )


class OidcProvider(Section):
    Name: str = Field(pattern="^[a-z0-9][a-z0-9-]{0,31}$", description="Its name in addresses.")
    Label: str = Field("", max_length=64, description="What the button says; empty: the name.")
    Issuer: str = Field(pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$", description="Its issuer identifier, exactly.")
    ClientId: str = Field(min_length=1, description="The client that it knows the gateway as.")
    ClientSecretFile: str = Field("", description="File with the client's secret; empty for a public client.")
    Scopes: tuple[str, ...] = Field(("openid",), description="Scopes that are asked for.")
    Claim: str = Field(min_length=1, description="The claim that names the person's account.")
    ClaimNames: Literal["objectGUID", "userPrincipalName", "objectSid"] = Field(description="What the claim holds.")
    Directory: str = Field("", description="The connection whose people it signs in; empty: of every connection.")
    Algorithms: tuple[Literal["RS256", "PS256", "ES256"], ...] = Field(
        ("RS256", "PS256", "ES256"), min_length=1, description="Algorithms of signatures that are accepted."
    )
    AcrValues: tuple[str, ...] = Field((), description="Authentication contexts (`acr`) that are asked for.")

    @field_validator("Scopes")
    @classmethod
    def _require_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must have openid")
        return scopes


class SignInSection(Section):
    RequireSecondFactor: bool = Field(
        False, description="Whether a person without a second factor can do nothing except set one up."
    )
    ApproversNeed: Literal["", "passkey"] = Field(
        "", description="`passkey`: whoever decides changes has signed in with a passkey, or uses one for the decision."
    )
    SecurityNeedsPasskey: bool = Field(
        False, description="Whether each decision about a security change takes a passkey, at the click."
    )
    Oidc: tuple[OidcProvider, ...] = Field(
        (),
        description="OpenID Connect [providers](sign-in.md#a-provider) at which people of directories sign in.",
    )
    ApproversNeedAcr: tuple[str, ...] = Field(
        (), description="Whoever decides changes has signed in at a provider whose `acr` is one of these."
    )
    ApproversNeedAmr: tuple[str, ...] = Field(
        (), description="Whoever decides changes has signed in at a provider with every one of these `amr`."
    )
    PasswordForm: bool = Field(
        True,
        description="Whether people sign in with passwords. `false` takes a provider and a `SignIn:BreakGlassAccount`.",
    )
    BreakGlassAccount: str = Field(
        "",
        description="The local account that signs in with its password in any case. With `PasswordForm` off, that is "
        "an [event](events.md), and mailed to superusers.",
    )

    @model_validator(mode="after")
    def _leave_a_way_in(self) -> Self:
        if len({provider.Name for provider in self.Oidc}) < len(self.Oidc):
            raise ValueError("Oidc: two providers have the same name")
        if len({(provider.Issuer, provider.ClientId) for provider in self.Oidc}) < len(self.Oidc):
            raise ValueError("Oidc: two providers have the same issuer and client")
        if not self.PasswordForm and not (self.Oidc and self.BreakGlassAccount):
            raise ValueError("PasswordForm: can be off only with a provider (Oidc) and a BreakGlassAccount")
        return self


class AccountNamesSection(Section):
    Letters: tuple[LetterInAccountNames, ...] = Field(
        ("ä=ae", "ö=oe", "ü=ue", "ß=ss", "ø=oe", "æ=ae"),
        description="How letters are written in the account names that the console proposes; others lose their "
        "accents.",
    )


class TokensSection(Section):
    AccessTokenMinutes: PositiveInt = Field(15, description="Life of an access token in minutes.")


class AgentsSection(Section):
    Enabled: bool = Field(False, description="Whether people can connect AI agents: the endpoint and its sign-in.")
    Registration: Literal["open", "closed"] = Field(
        "open", description="Whether agents register themselves, or only administrators make their clients."
    )
    RegistrationsPerHour: PositiveInt = Field(20, description="Registrations of agents from one address in an hour.")
    RedirectSchemes: tuple[PrivateScheme, ...] = Field(
        ("cursor", "vscode", "vscode-insiders", "windsurf"),
        description="Schemes of programs on people's machines to which the answer of a sign-in may go, besides https "
        "and loopback.",
    )
    MaxPendingRequests: PositiveInt = Field(
        20,
        description="Changes of one agent that may wait for a person at once, those of one call counted once; more are "
        "refused meanwhile.",
    )
    ChangesPerHour: PositiveInt = Field(200, description="Changes that one agent may ask for in an hour.")
    MetadataDocuments: bool = Field(
        False, description="Whether the client ID of an agent may be the address of its own metadata, which is fetched."
    )
    MetadataHosts: tuple[str, ...] = Field(
        (), description="Hosts that such metadata is fetched from, `.example.com` with those below it; `*` for any."
    )


class OperationsLogSection(Section):
    HeadFile: str = Field(
        "", description="File to which the head of the log's chain is added as a line; storage that only grows will do."
    )
    HeadToSyslog: bool = Field(False, description="Whether the head of the log's chain is exported to syslog.")
    HeadMinutes: PositiveInt = Field(60, description="Minutes between two exports of the head.")


class WebhooksSection(Section):
    AllowedNetworks: tuple[Network, ...] = Field(
        (),
        description="Private addresses and CIDR blocks to which webhooks may be sent, besides public ones; "
        "providers of `SignIn:Oidc` are asked there, too.",
    )
    AllowPlainHttp: bool = Field(
        False, description="Whether webhooks may be sent, and providers of `SignIn:Oidc` be asked, without TLS."
    )


class MetricsSection(Section):
    AllowedAddresses: tuple[Network, ...] = Field(
        ("127.0.0.0/8", "::1/128"), description="Who may read `/metrics` and the details of `/health/ready`."
    )
    WorkerAddress: Annotated[str, StringConstraints(pattern=r"^(\S+:[1-9][0-9]{0,4})?$")] = Field(
        "",
        description="`address:port` where each worker answers `/metrics` itself. For workers on hosts without a web "
        "server: one tells of the workers of its own host.",
    )


class DocumentationSection(Section):
    BaseUrl: str = Field(
        "",
        pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?$",
        description="Address at which this documentation is served (`make docs` builds it). The `type` of a problem "
        "then leads to the line of its code.",
    )


class Configuration(Section):
    """All sections."""

    Web: WebSection = WebSection()
    RequestLimits: RequestLimitsSection = RequestLimitsSection()
    RateLimiting: RateLimitingSection = RateLimitingSection()
    ForwardedHeaders: ForwardedHeadersSection = ForwardedHeadersSection()
    Directory: DirectorySection = DirectorySection()
    Searches: SearchesSection = SearchesSection()
    Runs: RunsSection = RunsSection()
    Approvals: ApprovalsSection = ApprovalsSection()
    Supervision: SupervisionSection = SupervisionSection()
    Budgets: BudgetsSection = BudgetsSection()
    Schedules: SchedulesSection = SchedulesSection()
    Scopes: ScopesSection = ScopesSection()
    SignIn: SignInSection = SignInSection()
    AccountNames: AccountNamesSection = AccountNamesSection()
    Tokens: TokensSection = TokensSection()
    Agents: AgentsSection = AgentsSection()
    OperationsLog: OperationsLogSection = OperationsLogSection()
    Webhooks: WebhooksSection = WebhooksSection()
    Metrics: MetricsSection = MetricsSection()
    Documentation: DocumentationSection = DocumentationSection()
