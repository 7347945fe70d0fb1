# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m mlac``: what is installed and what this machine has, for bug reports."""

import argparse
import json
import sys

from ._report import collect, format_text


def main() -> int:
    """Prints the report; 0 if the native runtime can be loaded, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m mlac",
        description="Reports versions, paths, devices and variables that matter to mlac.",
        epilog="Exit code: 0, or 1 when the native runtime cannot be loaded.")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    arguments = parser.parse_args()
    report = collect()
    print(json.dumps(report, indent=2) if arguments.json else format_text(report))
    return 1 if "error" in report["runtime"] else 0


if __name__ == "__main__":
    sys.exit(main())
