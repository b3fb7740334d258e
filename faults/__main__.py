"""`make faults` and `make cluster`: break the gateway under load, then compare all accounts of what happened.

Campaigns: `host`, with everything on one; `cluster`, with many in network namespaces; and `schedules`, in which sixteen
clients of such a cluster ask for changes that begin and end by themselves. These begin with more than a key's budget
allows, and a person approves the rest at once.
"""

import argparse
import dataclasses
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from faults.campaign import Plan, SiteOf, run_campaign
from faults.cluster.kinds import CLUSTER_KINDS
from faults.kinds import BUSY, KINDS, Kind
from faults.lending import Lending
from faults.report import report
from faults.servers import SETTINGS, running_servers
from lab.cluster.cluster import running_cluster
from lab.cluster.network import CannotRun, enter
from lab.commands import PROJECT

CAMPAIGNS = {
    "host": Plan(500, "postgresql", lending=Lending()),
    "cluster": Plan(500, "a cluster", clients=4, pace=6.0, patience=120.0),
    "schedules": Plan(
        50,
        "a cluster",
        clients=1,
        pace=5.0,
        patience=120.0,
        lending=Lending(16, people=40, pause=(2.0, 8.5), total=1850, burst=200),
    ),
}
_OPTIONS = {
    "faults": "how many",
    "seed": "makes the same choices again",
    "clients": "client threads",
    "pace": "seconds between two faults on average",
    "patience": "seconds until what was killed has to be back",
    "settled_within": "seconds until all is settled after the last fault",
}
_PAGE = PROJECT / "docs" / "faults.md"
_END = "<!-- its end -->\n"


def main() -> int:
    """Return 0 if every target is met, 2 if this machine cannot run a cluster."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__, argument_default=argparse.SUPPRESS)
    parser.add_argument("campaign", nargs="?", choices=CAMPAIGNS, default="host", help="by default on one host")
    for name, meaning in _OPTIONS.items():
        kind = type(getattr(CAMPAIGNS["host"], name))
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, dest=name, help=meaning)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), help="of the campaign on one host")
    parser.add_argument("--write", action="store_true", default=False, help="put the report into docs/faults.md")
    options = vars(parser.parse_args())
    campaign, is_written = options.pop("campaign"), options.pop("write")
    plan = dataclasses.replace(CAMPAIGNS[campaign], **options)
    site: SiteOf = partial(running_servers, database=plan.database)
    if campaign != "host":
        site = partial(running_cluster, settings=SETTINGS)
        try:
            enter("faults")
        except CannotRun as reason:
            print(f"The campaign {campaign} cannot run: {reason}", file=sys.stderr)
            return 2
    kinds: dict[str, Sequence[Kind]] = {
        "host": KINDS.get(plan.database, ()),
        "cluster": CLUSTER_KINDS,
        # Two processors take longer to catch up after a minute than scheduled changes may be late.
        "schedules": [kind for kind in CLUSTER_KINDS if kind.name != BUSY],
    }
    logging.basicConfig(format="%(relativeCreated)8d ms  %(message)s", level=logging.INFO, stream=sys.stdout)
    folder = Path(tempfile.mkdtemp(prefix="gateway-faults-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user, in a private folder below
    print(f"Seed {plan.seed}, logs and diaries in {folder}", flush=True)
    result = run_campaign(plan, folder, site=site, kinds=kinds[campaign])
    text = "\n".join(report(result))
    print(f"\n{text}")
    if is_written:
        marker = f"<!-- the last report of {campaign} -->\n"
        head, _, rest = _PAGE.read_text().partition(marker)
        _PAGE.write_text(f"{head}{marker}\n{text}\n\n{_END}{rest.partition(_END)[2]}")
    if result.is_good:
        shutil.rmtree(folder, ignore_errors=True)
    return int(not result.is_good)


if __name__ == "__main__":
    sys.exit(main())
