"""Rules for groups that are given for a while only: list, edit and delete; and what a group's pages say of its rule."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import PageContext, page_at
from core.errors import Forbidden
from core.text.vocabulary import texts_by_name

UNITS = texts_by_name({"PT{}M": "minutes", "PT{}H": "hours", "P{}D": "days"})
"""The ISO 8601 durations that the form makes of a number, by unit."""
_DURATIONS = ("maxDuration", "defaultDuration")


@page_at("membership-rules/", "membership-rules", get="membership-rules.list")
def membership_rules(page: PageContext) -> HttpResponseBase:
    return page.render("directory/membership_rules.html", {"found": page.list_page("membership-rules.list")})


@page_at("membership-rules/<uuid:rule_id>/delete", "membership-rule-delete", "POST")
def delete(page: PageContext, rule_id: UUID) -> HttpResponseBase:
    page.perform("membership-rules.delete", id=rule_id)
    return page.redirect(
        "membership-rules", message=_("The rule is deleted: memberships of its group can be permanent.")
    )


def _typed_body(page: PageContext) -> dict[str, Any]:
    form = page.form

    def duration(member: str) -> str | None:
        count, unit = form.get(f"{member}.count", "").strip(), form.get(f"{member}.unit", "PT{}H")
        return unit.replace("{}", count) if count else None

    return {**{member: duration(member) for member in _DURATIONS}, "reasonRequired": "reasonRequired" in form}


def _duration_field(typed: Mapping[str, Any], member: str) -> tuple[str, str, str]:
    """The field's name, the number and the unit of a duration."""
    text = typed.get(member) or "PT{}H"
    return member, "".join(re.findall(r"\d", text)), re.sub(r"\d+", "{}", text)


def _rule_form(page: PageContext, rule_id: UUID | None = None) -> HttpResponseBase:
    if not page.may("membership-rules.create"):
        raise Forbidden
    record = page.perform("membership-rules.read", id=rule_id) if rule_id else None
    typed = _typed_body(page) if page.problem else record or {}
    group = page.form.get("group") or page.query["group"]
    context = {"record": record, "typed": typed, "group": group, "units": UNITS}
    durations = [_duration_field(typed, member) for member in _DURATIONS]
    return page.render("directory/membership_rule.html", {**context, "durations": durations})


@page_at("membership-rules/new", "membership-rule-new", "GET", "POST", form=_rule_form)
@page_at("membership-rules/<uuid:rule_id>", "membership-rule", "GET", "POST", form=_rule_form)
def save(page: PageContext, rule_id: UUID | None = None) -> HttpResponseBase:
    body = _typed_body(page)
    if rule_id is None:
        page.perform("membership-rules.create", body={**body, "group": page.form["group"].strip()})
    else:
        page.perform("membership-rules.update", id=rule_id, body=body, if_match=page.form["version"])
    return page.redirect("membership-rules", message=_("The rule is saved. Existing members stay."))


def rule_of_group(page: PageContext, record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The rule of an object, if it is a group that has one."""
    if record is None or record["kind"] != "group":
        return None
    return next(iter(page.list_first("membership-rules.list", 1, group=record["id"])), None)
