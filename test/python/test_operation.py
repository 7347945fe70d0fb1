# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The log of calls and the counters, by the environment and from Python."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import mlac

# Fails twice: once before and once after the log is switched off.
PROGRAM = """
import mlac
for level in (None, "off"):
    if level:
        mlac.set_log(level)
    try:
        mlac.Package("/nowhere/at-all.mlac")
    except mlac.NotFound:
        pass
"""
LINE = re.compile(r"mlac \d+\.\d{6} (\d+)/\d+ (.*)")


def run(**variables):
    """Standard error of the program."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    done = subprocess.run([sys.executable, "-B", "-c", PROGRAM], env=environment, text=True,
                          capture_output=True, check=True)
    return done.stderr


class OperationTest(unittest.TestCase):
    def expect_failure(self, text):
        lines = [LINE.fullmatch(line) for line in text.splitlines()]
        self.assertEqual(len(lines), 1, text)
        self.assertRegex(lines[0].group(2), r"^mla_package_open: MLA_NOT_FOUND in \d+\.\d us: .*"
                                            r"/nowhere/at-all\.mlac")
        return int(lines[0].group(1))

    def test_environment_logs_to_standard_error(self):
        self.expect_failure(run(MLAC_LOG="errors"))
        self.assertEqual(run(MLAC_LOG="off"), "")

    def test_environment_logs_to_a_file_of_each_process(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(
                run(MLAC_LOG="errors", MLAC_LOG_FILE=os.path.join(folder, "log.%p.txt")), "")
            (file,) = pathlib.Path(folder).iterdir()
            self.assertEqual(file.name, f"log.{self.expect_failure(file.read_text())}.txt")

    def test_wrong_settings_are_named(self):
        self.assertEqual(run(MLAC_LOG="loud"),
                         "mlac: MLAC_LOG: expected off, errors, calls or steps, got 'loud'\n")
        text = run(MLAC_LOG="errors", MLAC_LOG_FILE="/nowhere/log")
        warning, rest = text.split("\n", 1)
        self.assertEqual(warning, "mlac: MLAC_LOG_FILE: cannot append to '/nowhere/log': "
                                  "No such file or directory")
        self.expect_failure(rest)
        with self.assertRaisesRegex(ValueError, "expected one of off, errors, calls, steps, got"):
            mlac.set_log("loud")
        with self.assertRaisesRegex(TypeError, "function: expected one to call, got 'stderr'"):
            mlac.set_log("calls", "stderr")

    def test_messages_go_to_a_function(self):
        messages = []
        mlac.set_log("calls", lambda level, message: messages.append((level, message)))
        try:
            device = mlac.Device("cpu", threads=1)
            with self.assertRaises(mlac.NotFound):
                mlac.Package("/nowhere/at-all.mlac")
            device.close()
        finally:
            mlac.set_log("off")
        names = [(level, message.split(":")[0]) for level, message in messages]
        self.assertIn(("calls", "mla_device_open"), names)
        self.assertIn(("errors", "mla_package_open"), names)
        self.assertIn(("calls", "mla_device_close"), names)

    def test_counters_are_prometheus_text(self):
        name = 'mlac_failed_calls_total{status="MLA_NOT_FOUND"}'

        def count():
            samples = [line for line in mlac.metrics().splitlines() if not line.startswith("#")]
            for line in samples:
                self.assertRegex(line, r'^mlac_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? \d+$')
            return int(next(line for line in samples if line.startswith(name)).split()[-1])

        before = count()
        with self.assertRaises(mlac.NotFound):
            mlac.Package("/nowhere/at-all.mlac")
        self.assertEqual(count(), before + 1)


if __name__ == "__main__":
    unittest.main()
