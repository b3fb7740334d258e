"""Everyday work by the client that openapi-generator makes in Python: search, read, a dry run, update, an error."""

import os
import sys

from gateway_generated import ApiClient, Configuration
from gateway_generated.api.users_api import UsersApi
from gateway_generated.exceptions import NotFoundException
from gateway_generated.models.account_part import AccountPart
from gateway_generated.models.replace_value import ReplaceValue
from gateway_generated.models.update_account import UpdateAccount

configuration = Configuration(host=os.environ["GATEWAY_URL"], api_key={"apiKey": os.environ["GATEWAY_KEY"]})
with ApiClient(configuration) as client:
    users = UsersApi(client)

    page = users.users_search(base=os.environ["GATEWAY_UNIT"], page_size=10, attributes=["title", "mail"])
    [found] = page.items

    read = users.users_read(found.id)
    changes = UpdateAccount(
        replace={"title": ReplaceValue("Countess")}, account=AccountPart(expires_at="2199-01-01T00:00:00Z")
    )
    # Read as JSON, changed and sent again: what nobody mentioned is not sent.
    changes = UpdateAccount.from_dict(changes.to_dict())
    planned = users.users_update(found.id, update_account=changes, dry_run=True)
    assert len(planned.actual_instance.changes) == 2
    assert AccountPart.from_dict({"passwordNeverExpires": True}).to_dict() == {"passwordNeverExpires": True}

    updated = users.users_update(
        found.id, update_account=changes, if_match=f'"{read.version}"', x_change_reason="Promoted"
    )
    assert updated.actual_instance.attributes["title"] == ["Countess"]

    try:
        users.users_read("00000000-0000-0000-0000-000000000000")
    except NotFoundException as refusal:
        sys.stdout.write(refusal.body)
    else:
        raise SystemExit("somebody was found where nobody is")
