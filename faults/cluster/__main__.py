"""`make cluster`: break many hosts in network namespaces under load, then compare all accounts of what happened."""

import sys
from functools import partial

from faults.campaign import Plan
from faults.cluster.kinds import KINDS
from faults.command import new_seed, options_of, run
from faults.servers import SETTINGS
from lab.cluster.cluster import running_cluster
from lab.cluster.network import CannotRun, enter

MARKER = "<!-- the last report of `make cluster` -->\n"


def main() -> int:
    """Return 0 if every target is met, 2 if this machine cannot run a cluster."""
    defaults = Plan(500, "a cluster", new_seed(), clients=4, pace=6.0, back_within=120.0)
    arguments = options_of("python -m faults.cluster", __doc__, defaults).parse_args()
    try:
        enter("faults.cluster")
    except CannotRun as reason:
        print(f"make cluster: {reason}", file=sys.stderr)
        return 2
    return run(arguments, defaults, marker=MARKER, site=partial(running_cluster, settings=SETTINGS), kinds=KINDS)


if __name__ == "__main__":
    sys.exit(main())
