"""The benchmarks of the Ray engine, as ratios measured in one run on one machine. Exit code 0 unless something broke.

python bench/ray.py [--only a,c] [--quick] [--json] [--folder FOLDER]
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # This file must not stand where others look for the package ray.
    from on_ray import main

    sys.exit(main())
