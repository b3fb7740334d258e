"""`make cluster`: many hosts in network namespaces, broken under load one by one and together, and then compared."""

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
    """0 when every target is met, 2 where no cluster can be made."""
    defaults = Plan(500, "a cluster", new_seed(), clients=4, pace=6.0, back_within=120.0)
    given = options_of("python -m faults.cluster", __doc__, defaults).parse_args()
    try:
        enter("faults.cluster")
    except CannotRun as reason:
        print(f"make cluster: {reason}", file=sys.stderr)
        return 2
    return run(given, defaults, marker=MARKER, site=partial(running_cluster, settings=SETTINGS), kinds=KINDS)


if __name__ == "__main__":
    sys.exit(main())
