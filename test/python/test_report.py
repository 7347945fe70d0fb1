# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m mlac: a report that also comes when something is missing."""

import json
import os
import subprocess
import sys
import unittest

import mlac


def run(*arguments, **variables):
    return subprocess.run([sys.executable, "-B", "-m", "mlac", *arguments], text=True,
                          capture_output=True, env={**os.environ, **variables})


class ReportTest(unittest.TestCase):
    def test_names_versions_paths_and_devices(self):
        done = run("--json", MLAC_COMPILER=os.environ["MLAC_COMPILE"])
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["runtime"]["version"], mlac.runtime_version())
        self.assertEqual(report["runtime"]["path"], os.environ["MLAC_RUNTIME_LIBRARY"])
        self.assertEqual(report["compiler"]["path"], os.environ["MLAC_COMPILE"])
        self.assertIn("LLVM", report["compiler"]["version"])
        self.assertEqual(report["devices"][0], mlac.Device("cpu").info)
        self.assertEqual(report["environment"]["MLAC_COMPILER"], os.environ["MLAC_COMPILE"])

    def test_text_holds_the_same(self):
        done = run(MLAC_COMPILER=os.environ["MLAC_COMPILE"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"runtime: version {mlac.runtime_version()}, path ", done.stdout)
        self.assertIn(f"  MLAC_COMPILER = {os.environ['MLAC_COMPILE']}", done.stdout)

    def test_missing_runtime_is_reported(self):
        done = run("--json", MLAC_RUNTIME_LIBRARY="/nowhere/libmla_runtime.so")
        self.assertEqual(done.returncode, 1)
        report = json.loads(done.stdout)
        self.assertIn("/nowhere/libmla_runtime.so", report["runtime"]["error"])
        self.assertEqual(report["devices"], [])

    def test_missing_compiler_is_reported(self):
        done = run("--json", MLAC_COMPILER="/nowhere/mla-compile")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("/nowhere/mla-compile", json.loads(done.stdout)["compiler"]["error"])


if __name__ == "__main__":
    unittest.main()
