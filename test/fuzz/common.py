# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the fuzzers of this folder share: runs with limits, and failures that are kept."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A command that takes longer hangs: the slowest, PTX of a large model, takes 20 s on one core.
SECONDS = 180
# Errors are for people: no dump of the IR or of the input.
LONGEST_ERROR = 20000
# What only a fault of ours says, whatever was given.
INTERNAL = re.compile(
    r"LLVM ERROR|PLEASE submit|Assertion|terminate called|std::|failed to legalize|"
    r"see current operation|kernels without calls|unrealized_conversion_cast|"
    r"error: '(?!mla\.)[a-z0-9_]+\.[a-z0-9_.]+' op")


class Report:
    """Counts cases; keeps the input and the command of each that fails."""

    def __init__(self, kind, out, seed):
        self.kind, self.out, self.seed = kind, out, seed
        self.failures, self.counts = 0, {}

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def fail(self, case, why, path, command):
        """`path` is the case's input; it is copied to where it stays."""
        self.failures += 1
        path = pathlib.Path(path)
        kept = self.out / f"seed{self.seed}-case{case}{path.suffix}"
        kept.write_bytes(path.read_bytes())
        line = " ".join(str(kept) if part == str(path) else str(part) for part in command)
        print(f"FAIL {self.kind} seed {self.seed} case {case}: {why}\n  {line}", flush=True)

    def finish(self):
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        print(f"{self.kind}: seed {self.seed}: {counts}; {self.failures} failures", flush=True)
        return self.failures == 0


def run(command, seconds=SECONDS):
    """Exit code (None: too long), standard error."""
    try:
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stderr.decode("utf-8", "replace")


def judge(code, error, names):
    """Why a command broke the rule, or "": it did what was asked, or says what is wrong
    with the input (one of `names` is in the message) or with an option."""
    if code is None:
        return f"runs for more than {SECONDS} s"
    if code not in (0, 1):
        return f"ends with {code}"
    found = INTERNAL.search(error)
    if found:
        return f"says '{found.group(0)}'"
    if len(error) > LONGEST_ERROR:
        return f"says {len(error)} characters"
    if code == 1 and not any(name in error for name in (*names, "--")):
        return "fails without naming the input or an option"
    return ""


def tool(arguments, name):
    path = pathlib.Path(arguments.tools).resolve() / name
    if not path.exists():
        sys.exit(f"no {path}: build it, or give --tools")
    return path
