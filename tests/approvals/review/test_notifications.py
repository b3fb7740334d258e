"""Who is told what by e-mail, when, and what a mail server that is away does to it."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.core.mail import EmailMessage
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.translation import override

from approvals import queue
from approvals.messages import headline_of
from approvals.models import ChangeRequest, Notice, Status
from approvals.review import decisions, notifications
from approvals.states import move
from directory.shapes.proposal import AttributeChange
from gateway import tasks
from keys.models import Person
from keys.permissions.effective import reference_to
from tests.approvals.proposals import SECURITY, hold, make_proposal
from tests.audit.calls import CALL, make_call
from tests.support.cast import make_person, permissions
from tests.support.configuration import Configure
from tests.support.smtp import MailServer

pytestmark = pytest.mark.django_db

DECIDE = "approvals.decide_change"


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with MailServer() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.host, server.port
        yield server


def with_address(name: str, *, may: list[str] | None = None) -> Person:
    person = make_person(name, may=[DECIDE] if may is None else may)
    Person.objects.filter(pk=person.pk).update(email=f"{name}@example.test")
    return Person.objects.get(pk=person.pk)


@pytest.fixture
def grace() -> Person:
    return with_address("grace")


@pytest.fixture
def ada() -> Person:
    return with_address("ada", may=["directory.update_user"])


def asked_by(person: Person, **fields: Any) -> ChangeRequest:
    return hold(make_call(person=reference_to(person)), **fields)


def a_minute_later() -> None:
    """Let what waits for others to be told with it be due."""
    Notice.objects.update(due_at=timezone.now())


def tell() -> None:
    """As the sweeps of the next minute do."""
    tasks.tell_people()
    a_minute_later()
    tasks.tell_people()


def addresses(outbox: list[EmailMessage]) -> list[str]:
    return sorted(address for message in outbox for address in message.to)


class TestApprovers:
    def test_it_works(self, grace: Person, ada: Person, mailoutbox: list[EmailMessage], configure: Configure) -> None:
        configure("Approvals", BaseUrl="https://gateway.example.test/dmg/")
        held = asked_by(ada)
        tell()
        (message,) = mailoutbox
        assert message.to == ["grace@example.test"]
        assert message.subject == "[Directory gateway] Approval needed: Change e-mail of Ada"
        assert message.content_subtype == "plain"
        assert message.extra_headers["Auto-Submitted"] == "auto-generated"
        for text in (
            "CN=Ada,OU=Sales,DC=corp",
            "ada, key crm",
            "Ticket 4711",
            "This is a security change: it writes mail.",
            "Attributes: mail",
            str(held.id),
            f"https://gateway.example.test/dmg/console/changes/{held.id}",
        ):
            assert text in message.body
        tell()
        assert len(mailoutbox) == 1, "once"

    def test_who_is_told(self, ada: Person, mailoutbox: list[EmailMessage]) -> None:
        with_address("direct")
        group = Group.objects.create(name="approvers")
        group.permissions.set(permissions([DECIDE]))
        with_address("in-group", may=[]).groups.add(group)
        superuser = make_person("root", superuser=True)
        Person.objects.filter(pk=superuser.pk).update(email="root@example.test")
        inactive = with_address("inactive")
        Person.objects.filter(pk=inactive.pk).update(is_active=False)
        with_address("other", may=["audit.read_log"])
        make_person("without-address", may=[DECIDE])
        ada.user_permissions.add(*permissions([DECIDE]))
        asked_by(ada)
        tell()
        assert addresses(mailoutbox) == ["direct@example.test", "in-group@example.test", "root@example.test"]

    def test_many_within_a_minute_are_one_message(
        self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]
    ) -> None:
        for _ in range(20):
            asked_by(ada)
        tasks.tell_people()
        for _ in range(20):
            asked_by(ada)
        tasks.tell_people()
        assert mailoutbox == [], "the first waits for others"
        Notice.objects.filter(pk=Notice.objects.earliest("pk").pk).update(due_at=timezone.now())
        tasks.tell_people()
        (message,) = mailoutbox
        assert message.subject == "[Directory gateway] Approval needed: 40 changes"
        assert message.body.count("Change e-mail of") == 25
        assert "And 15 more." in message.body
        assert not Notice.objects.exists()

    def test_a_minute_is_a_minute(self, grace: Person, ada: Person) -> None:
        asked_by(ada)
        begun = timezone.now()
        tasks.tell_people()
        due_at = Notice.objects.get().due_at
        assert begun + timedelta(seconds=55) < due_at <= timezone.now() + timedelta(seconds=60)

    def test_what_was_decided_meanwhile_is_not_asked(
        self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]
    ) -> None:
        decided, waiting = asked_by(ada), asked_by(ada)
        tasks.tell_people()
        move(decided.id, Status.PENDING, Status.CANCELLED)
        a_minute_later()
        tasks.tell_people()
        (message,) = mailoutbox
        assert str(waiting.id) in message.body
        assert str(decided.id) not in message.body

    def test_who_may_no_longer_decide_is_not_told(
        self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]
    ) -> None:
        asked_by(ada)
        tasks.tell_people()
        grace.user_permissions.clear()
        tell()
        assert mailoutbox == []
        assert not Notice.objects.exists()

    def test_of_a_first_approval_only_the_others(
        self, grace: Person, ada: Person, mailoutbox: list[EmailMessage], configure: Configure
    ) -> None:
        configure("Approvals", ProtectedNeedsTwo=True)
        alan = with_address("alan")
        held = asked_by(ada, protected=True)
        tell()
        assert addresses(mailoutbox) == ["alan@example.test", "grace@example.test"]
        mailoutbox.clear()
        decisions.approve(make_call(person=reference_to(grace)), held.id, digest=held.digest)
        tell()
        (message,) = mailoutbox
        assert message.to == [alan.email]
        assert "Approved by grace; a second person has to approve it too." in message.body


class TestExpiry:
    @pytest.mark.parametrize(
        ("life", "left", "is_told"),
        [(168, 23.9, True), (168, 24.1, False), (10, 4.9, True), (10, 5.1, False), (168, -0.1, False)],
    )
    def test_when(
        self,
        grace: Person,
        ada: Person,
        mailoutbox: list[EmailMessage],
        life: float,
        left: float,
        is_told: bool,
    ) -> None:
        held = asked_by(ada)
        tell()
        mailoutbox.clear()
        ends = timezone.now() + timedelta(hours=left)
        ChangeRequest.objects.filter(id=held.id).update(expires_at=ends, created_at=ends - timedelta(hours=life))
        tell()
        tell()
        assert len(mailoutbox) == is_told
        if is_told:
            assert mailoutbox[0].subject == ("[Directory gateway] Approval needed, expires soon: Change e-mail of Ada")


class TestRequesters:
    @pytest.mark.parametrize(
        ("way", "subject"),
        [
            (["approved"], "Approved: Change e-mail of Ada"),
            (["rejected"], "Rejected: Change e-mail of Ada"),
            (["expired"], "Expired without a decision: Change e-mail of Ada"),
            (["approved", "applying", "applied"], "Applied: Change e-mail of Ada"),
            (["approved", "applying", "failed"], "Failed: Change e-mail of Ada"),
            (["approved", "applying", "stale"], "Stale: Change e-mail of Ada"),
            (["approved", "failed"], "Failed: Change e-mail of Ada"),
            (["approved", "applying", "unknown", "applied"], "Applied: Change e-mail of Ada"),
            (["cancelled"], None),
        ],
    )
    def test_the_end(self, ada: Person, mailoutbox: list[EmailMessage], way: list[str], subject: str | None) -> None:
        held = asked_by(ada)
        states = ["pending", *way]
        for before, after in zip(states, way, strict=False):
            move(held.id, Status(before), Status(after))
        tell()
        assert [message.subject for message in mailoutbox] == ([f"[Directory gateway] {subject}"] if subject else [])

    def test_what_it_says(self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]) -> None:
        held = asked_by(ada)
        decisions.reject(
            make_call(person=reference_to(grace)),
            held.id,
            comment="Ask HR first.\n\nUnsubscribe: https://evil.example.test",
        )
        tell()
        (message,) = [item for item in mailoutbox if item.to == ["ada@example.test"]]
        assert "Outcome:    rejected" in message.body
        assert "Decided by: grace" in message.body
        assert "Comment:    Ask HR first. Unsubscribe:" in message.body, "on one line"

    def test_each_state_is_told_once(self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]) -> None:
        held = asked_by(ada)
        decisions.approve(make_call(person=reference_to(grace)), held.id, digest=held.digest)
        tell()
        move(held.id, Status.APPROVED, Status.APPLYING)
        tell()
        problem = {"code": "AD.Directory.Rejected", "title": "The directory refused", "detail": "secret detail"}
        move(held.id, Status.APPLYING, Status.FAILED, problem=problem)
        tell()
        tell()
        told = [item for item in mailoutbox if item.to == ["ada@example.test"]]
        assert [item.subject.partition("] ")[2].partition(":")[0] for item in told] == [
            "Approved",
            "Failed",
        ]
        assert "AD.Directory.Rejected, The directory refused" in told[1].body
        assert "secret detail" not in told[1].body

    def test_many_are_counted(self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]) -> None:
        for number in range(5):
            held = asked_by(ada)
            if number < 3:
                decisions.reject(make_call(person=reference_to(grace)), held.id, comment="no")
            else:
                move(held.id, Status.PENDING, Status.EXPIRED)
        tell()
        (message,) = mailoutbox
        assert message.subject == "[Directory gateway] 5 changes: 3 rejected, 2 expired without a decision"


class TestContent:
    def test_no_values_and_no_secrets(self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]) -> None:
        queue.hold(
            make_call(person=reference_to(ada), reason="Bcc: eve@example.test\r\nSubject: x\x1b[0m"),
            operation="users.reset-password",
            arguments={},
            query={},
            document={"newPassword": "Pa55word!"},
            proposal=make_proposal(
                AttributeChange("unicodePwd", ("<secret>",), ("Pa55word!",)),
                AttributeChange("title", ("Old-Value",), ("New-Value",)),
            ),
            assessment=SECURITY,
        )
        tell()
        (message,) = mailoutbox
        raw = message.message().as_string()
        for secret in ("Pa55word!", "Old-Value", "New-Value", "<secret>", "\x1b"):
            assert secret not in raw
        assert "Attributes: unicodePwd, title" in message.body
        assert "Reason:     Bcc: eve@example.test Subject: x" in message.body

    def test_a_name_cannot_forge_headers(self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]) -> None:
        held = asked_by(ada)
        ChangeRequest.objects.filter(id=held.id).update(target_dn="CN=x\\0AEvil: 1,DC=corp")
        tell()
        assert mailoutbox[0].message()["Evil"] is None
        assert mailoutbox[0].subject.endswith("of x Evil: 1")

    def test_without_a_base_url_there_is_no_link(
        self, grace: Person, ada: Person, mailoutbox: list[EmailMessage]
    ) -> None:
        asked_by(ada)
        tell()
        assert "http" not in mailoutbox[0].body


def test_switched_off(grace: Person, ada: Person, mailoutbox: list[EmailMessage], configure: Configure) -> None:
    configure("Approvals", NotifyByEmail=False)
    asked_by(ada)
    tell()
    configure("Approvals", NotifyByEmail=True)
    tell()
    assert mailoutbox == [], "nor later"


class TestDelivery:
    def test_by_smtp(self, grace: Person, ada: Person, server: MailServer) -> None:
        asked_by(ada)
        tell()
        (message,) = server.messages
        assert (message["To"], message["X-Directory-Gateway"]) == ("grace@example.test", "approval-needed")
        assert message.get_content_type() == "text/plain"
        assert "Change e-mail of Ada" in message.get_content()

    def test_a_server_that_is_away_loses_nothing(
        self, grace: Person, ada: Person, server: MailServer, settings: Any
    ) -> None:
        held = asked_by(ada)
        decided = asked_by(ada)
        decisions.reject(make_call(person=reference_to(grace)), decided.id, comment="no")
        port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
        begun = timezone.now()
        tell()
        assert ChangeRequest.objects.get(id=held.id).status == "pending"
        assert Notice.objects.filter(due_at__gt=begun + timedelta(seconds=50), attempts=1).exists()
        Notice.objects.update(due_at=timezone.now() + timedelta(minutes=10))  # for machines that take long
        tasks.tell_people()
        assert Notice.objects.filter(attempts__gt=1).count() == 0, "not at once again"
        settings.EMAIL_PORT = port
        a_minute_later()
        tasks.tell_people()
        assert sorted(message["To"] for message in server.messages) == ["ada@example.test", "grace@example.test"]

    def test_it_is_given_up_in_the_end(self, grace: Person, ada: Person, settings: Any) -> None:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
        asked_by(ada)
        pauses = []
        tasks.tell_people()
        for _ in range(notifications.MAX_ATTEMPTS):
            a_minute_later()
            tasks.tell_people()
            pauses += [round((item.due_at - timezone.now()) / timedelta(minutes=1)) for item in Notice.objects.all()]
        assert not Notice.objects.exists()
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]

    def test_an_address_that_cannot_be_written_does_not_either(
        self, grace: Person, ada: Person, server: MailServer
    ) -> None:
        Person.objects.filter(pk=ada.pk).update(email="no address at all@\n")
        decisions.reject(make_call(person=reference_to(grace)), asked_by(ada).id, comment="no")
        asked_by(ada)
        tell()
        assert [message["To"] for message in server.messages] == ["grace@example.test"]

    def test_one_refused_address_does_not_hold_up_the_others(
        self, grace: Person, ada: Person, server: MailServer
    ) -> None:
        with_address("alan")
        server.refused = {"alan@"}
        asked_by(ada)
        tell()
        assert [message["To"] for message in server.messages] == ["grace@example.test"]
        server.refused = set()
        a_minute_later()
        tasks.tell_people()
        assert [message["To"] for message in server.messages] == ["grace@example.test", "alan@example.test"]

    def test_a_worker_that_was_lost_while_sending(
        self, grace: Person, ada: Person, mailoutbox: list[EmailMessage], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked_by(ada)
        tasks.tell_people()
        a_minute_later()
        with monkeypatch.context() as patch:
            patch.setattr(notifications, "_send", lambda *_: (_ for _ in ()).throw(SystemExit))
            with pytest.raises(SystemExit):
                notifications.send_due()
        assert notifications.send_due() == 0, "it may still be sending"
        Notice.objects.update(claimed_until=timezone.now())
        assert notifications.send_due() == 1
        assert len(mailoutbox) == 1

    @pytest.mark.django_db(transaction=True)
    def test_of_many_workers_one_sends(self, mailoutbox: list[EmailMessage]) -> None:
        _, ada = with_address("grace"), with_address("ada", may=[])
        for _ in range(10):
            asked_by(ada)
        together = threading.Barrier(4)

        def work() -> None:
            together.wait()
            notifications.collect()
            together.wait()
            if together.wait() == 0:
                a_minute_later()
            together.wait()
            notifications.send_due()
            connection.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (message,) = mailoutbox
        assert message.subject.endswith("10 changes")


def test_the_request_knows_nothing_of_mail(ada: Person, grace: Person, django_assert_num_queries: Any) -> None:
    """Holding a change is one insertion, whoever there is to be told, and a look for endpoints of webhooks."""
    with django_assert_num_queries(2):
        hold(CALL)


def test_more_requests_take_no_more_queries(ada: Person, grace: Person, mailoutbox: list[EmailMessage]) -> None:
    """The log is read once for each key and person, and notices are stored together."""
    with_address("alan")
    counts = []
    for requests in (1, 40):
        for _ in range(requests):
            asked_by(ada)
        with CaptureQueriesContext(connection) as queries:
            tell()
        counts.append(len(queries))
    assert len(mailoutbox) == 4
    assert mailoutbox[-1].subject.endswith("40 changes")
    assert counts[1] <= counts[0]


def test_what_goes_out_is_english_whoever_moved_the_request() -> None:
    asked = ChangeRequest(operation="users.disable", target_dn="CN=Ada Lovelace,DC=corp,DC=test", changes=[])
    asked.directory_id = uuid4()
    with override("de"):
        assert headline_of(asked) == "Disable Ada Lovelace"
