"""`make soak`: the long trials of damaged inputs, models, options, kills and Ray; counts go to results/soak.

python -m tests.soak                         # all parts, in full: about an hour on two cores
python -m tests.soak damage --seeds 7 8 9    # one part, with other seeds
python -m tests.soak options --count 50      # a short trial
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import tempfile
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bidibeam import __version__
from bidibeam.files import write_json

FULL = Path("results/soak")
"""Where the counts of full trials go; those of others are printed."""
PARTS = ("damage", "models", "options", "kills", "requests", "ray")
LIBRARIES = ("torch", "transformers", "tokenizers", "ctranslate2", "peft")


def without_folders(counts: Any) -> Any:
    """Counts that do not say in which temporary folders things were."""
    return json.loads(re.sub(rf"{re.escape(tempfile.gettempdir())}/[^/\s]+/", "", json.dumps(counts)))


def main() -> int:
    """Run the parts that are asked for; the exit status is 1 if one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="The long trials.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="one trial each")
    parser.add_argument("--count", type=int, help="cases for each seed, in place of the full number")
    parser.add_argument("--out", type=Path, help="folder of the counts: results/soak for the full number")
    parser.add_argument("--label", help="ends the names of the files, such as before")
    asked = parser.parse_args()
    if unknown := {*asked.parts} - {*PARTS}:
        parser.error(f"no part is called {min(unknown)!r}; there are: {', '.join(PARTS)}")
    found = 0
    for name in asked.parts or PARTS:
        begun = time.monotonic()

        def report(line: str, name: str = name, begun: float = begun) -> None:
            print(f"{name} {time.monotonic() - begun:6.0f} s  {line}", file=sys.stderr, flush=True)  # noqa: T201

        counts = import_module(f"tests.soak.{name}").run(asked.seeds, asked.count, report)
        report(f"{len(counts['failures'])} failures")
        found += len(counts["failures"])
        out = asked.out or (FULL if asked.count is None else None)
        if out is None:
            print(json.dumps(counts, indent=2))  # noqa: T201
            continue
        signature = {"bidibeam": __version__, "python": platform.python_version(), "seeds": asked.seeds}
        signature |= {library: version(library) for library in LIBRARIES}
        file = out / (f"{name}-{asked.label}.json" if asked.label else f"{name}.json")
        write_json(file, {"signature": signature, **without_folders(counts)})
        report(f"counts are in {file}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
