"""How close a run on a cluster that grows comes to the best possible, given when its hosts were there. A ratio.

python bench/scaling.py [--quick] [--json]        needs root: the hosts are those of tests/testbed/
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from figures import Figure, table

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from clusters.desk import Desk
from clusters.growth import HOSTS, Grown, growing_cluster, run_growing
from testbed import Testbed, why_not_here

TRIALS, QUICK, TRIAL_S = 300, 120, 0.5
AT_MOST = 1.1


def measure(trials: int) -> Grown:
    with Testbed(["desk", *HOSTS]) as bed:
        desk = Desk(bed)
        cluster = growing_cluster(desk)
        grown = run_growing(desk, cluster, trials, TRIAL_S)
        desk.shoal("cluster", "down", cluster)
        return grown


def figure(grown: Grown, trials: int) -> Figure:
    came = ", ".join(f"{at - grown.began:.1f} s" for at in grown.ready)
    how = f"{trials} trials of {TRIAL_S:g} s took {grown.took_s:.1f} s, at best {grown.best_s:.1f} s; hosts at {came}"
    what = "growing from one host to three, against the best possible"
    return Figure("scaling", what, grown.took_s / grown.best_s, at_most=AT_MOST, how=how)


def main() -> int:
    parser = argparse.ArgumentParser(description="A growing cluster against the best possible.")
    parser.add_argument("--quick", action="store_true", help="less work: to see that it works, not how well")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    reason = why_not_here()
    if reason is not None:
        print(f"Left out: {reason}.", file=sys.stderr)
        return 0
    trials = QUICK if arguments.quick else TRIALS
    found = figure(measure(trials), trials)
    found = found.without_target() if arguments.quick else found
    print(json.dumps([found.document()], indent=1) if arguments.json else table([found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
