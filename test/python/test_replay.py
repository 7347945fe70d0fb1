# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The flight recorder: a process records its last failing step, another runs it again.

MLAC_COMPILE and MLAC_RUN name mla-compile and mla-run, MLAC_GOLDEN the tiny DeepSeek-V3 layer's
safetensors file, MLAC_NVTX_RECORDER a profiler's library that prints.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import mlac

COMPILE = os.environ.get("MLAC_COMPILE", "")
RUN = os.environ.get("MLAC_RUN", "")
GOLDEN = os.environ.get("MLAC_GOLDEN", "")
NVTX_RECORDER = os.environ.get("MLAC_NVTX_RECORDER", "")

# Two requests with cached tokens of their own, whose pages lie between others'. What the third
# argument says happens to row 1 of the step's two.
PROGRAM = """
import array, math, sys
import mlac

package, golden, fault = sys.argv[1:]
engine = mlac.Engine(mlac.Package(package), mlac.Device("cpu", threads=1), num_layers=2,
                     max_num_requests=3, max_num_tokens=64, max_seq_len=128)
for layer in range(2):
    engine.bind_safetensors(golden, prefix="layers.0.self_attn/weights/", allow_extra=True, layer=layer)
    engine.prepare(layer)
plan, size = engine.plan(), engine.hidden_size
sequences = [engine.sequence() for _ in range(3)]


def step(sequences, tokens, row=None):
    plan.fill(sequences, tokens)
    for layer in range(2):
        rows = [math.sin(i) for i in range(sum(tokens) * size)]
        if row is not None and layer == 1:
            rows[row * size] = math.nan
        output = array.array("f", bytes(4 * len(rows)))
        plan.run(array.array("f", rows), output, layer=layer)


step(sequences, [5, 20, 18])
step(sequences, [1, 1, 1], row=1 if fault == "nan" else None)
step(sequences[:1], [1])  # a sound step keeps the recording of the last failing one
"""


def read_header(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(os.path.exists(RUN), "MLAC_RUN is not there")
@unittest.skipUnless(os.path.exists(GOLDEN), "MLAC_GOLDEN is not there")
class ReplayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        for name, options in (("tiny", []), ("other", ["--absorb=offline"])):
            subprocess.run([COMPILE, GOLDEN, "--dtype=f32", "--page-size=4", "--quiet", *options,
                            "-o", cls.path / f"{name}.mlac"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def record(self, fault, **variables):
        """The recordings of a run of the program, and its standard error."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.path))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                       "MLAC_RECORD": str(folder / "step-%p.safetensors"), **variables}
        done = subprocess.run([sys.executable, "-B", "-c", PROGRAM, self.path / "tiny.mlac", GOLDEN, fault],
                              env=environment, text=True, capture_output=True, check=True)
        return sorted(folder.iterdir()), done.stderr

    def run_tool(self, *arguments, package="tiny"):
        return subprocess.run([RUN, "replay", self.path / f"{package}.mlac", *arguments], text=True,
                              capture_output=True)

    def test_sound_steps_are_not_recorded(self):
        self.assertEqual(self.record("none"), ([], ""))

    def test_a_step_with_a_nan_is_run_again(self):
        (recording,), text = self.record("nan")
        self.assertRegex(text, r"^mlac: MLAC_RECORD: layer 1 of function 'decode': output 'output' has "
                               r"64 elements that are no numbers; recorded in '.*/step-\d+\.safetensors'\n$")
        result = mlac.replay(mlac.Package(self.path / "tiny.mlac"), mlac.Device("cpu"), recording)
        self.assertEqual((result["function"], result["layer"]), ("decode", "1"))
        (output,) = result["outputs"]
        # The same bits, also of the two requests that were sound: caches and tables are theirs.
        self.assertEqual(output, {"name": "output", "elements": 3 * 64, "nan": 64, "different": False})
        self.assertGreater(result["launches"][0]["nan"], 0, "the first product has the NaN")

        tool = self.run_tool(recording)
        self.assertEqual(tool.returncode, 1, tool.stderr)
        self.assertRegex(tool.stdout, r"(?m)^  linear_\S+ +grid \S+ +\d+ NaN: the first$")
        self.assertEqual(tool.stdout.count("the first"), 1)
        self.assertIn("output output: 64 of 192 elements are NaN, as it was recorded", tool.stdout)

    def test_only_pages_of_the_step_are_recorded(self):
        (recording,), _ = self.record("nan")
        header = read_header(recording)
        pages = header["pool/0/pages"]["shape"][0]
        # 6, 21 and 19 tokens in pages of 4.
        self.assertEqual(pages, 2 + 6 + 5)
        self.assertEqual(header["pool/0/bytes"]["shape"], [pages, 4 * 40 * 4])

    def test_changes_of_the_recording_are_seen(self):
        (recording,), _ = self.record("nan")
        header = read_header(recording)
        data = recording.read_bytes()
        changed = self.path / "changed.safetensors"
        begin = header["output/" + next(k for k in header if k.startswith("output/")).split("/")[1]]["data_offsets"][0]
        at = len(data) - header_end(header) + begin
        changed.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        self.assertIn("differs from the recorded one", self.run_tool(changed).stdout)

    def test_refusals_name_what_is_wrong(self):
        (recording,), _ = self.record("nan")
        other = self.run_tool(recording, package="other")
        self.assertEqual(other.returncode, 2)
        self.assertRegex(other.stderr, r"recorded with another package: its checksum is \d+, this one's \d+")
        golden = self.run_tool(GOLDEN)
        self.assertIn("is no recording of a step (MLAC_RECORD)", golden.stderr)
        cut = self.path / "cut.safetensors"
        shutil.copy(recording, cut)
        os.truncate(cut, os.path.getsize(cut) - 1)
        self.assertIn("MLA_CORRUPT", self.run_tool(cut).stderr)
        self.assertIn("MLA_NOT_FOUND", self.run_tool("/nowhere/step").stderr)
        self.edit(recording, cut, lambda header: header["__metadata__"].update(version="9.9.9"))
        self.assertIn("recorded by version 9.9.9, this is", self.run_tool(cut).stderr)
        self.edit(recording, cut, lambda header: header.update({"sizes": header.pop("dims")}))
        self.assertIn("the recording has no 'dims'", self.run_tool(cut).stderr)

    def edit(self, source, target, change):
        data = source.read_bytes()
        header = read_header(source)
        end = 8 + struct.unpack("<Q", data[:8])[0]
        change(header)
        text = json.dumps(header).encode()
        target.write_bytes(struct.pack("<Q", len(text)) + text + data[end:])

    def test_a_file_that_cannot_be_written_is_named(self):
        _, text = self.record("nan", MLAC_RECORD="/nowhere/step")
        self.assertEqual(text, "mlac: MLAC_RECORD: cannot write '/nowhere/step': No such file or directory\n")

    def test_only_regular_files_are_replaced(self):
        """A device that is replaced by a file is gone for the whole machine."""
        pipe, link, lost = (self.path / name for name in ("pipe", "link", "lost"))
        os.mkfifo(pipe)
        lost.symlink_to("nowhere")
        for path, what in ((pipe, "a FIFO"), (lost, "a link to nothing"),
                           (self.path, "a directory")):
            _, text = self.record("nan", MLAC_RECORD=str(path))
            self.assertEqual(text, f"mlac: MLAC_RECORD: cannot write '{path}': it is {what}, "
                                   "expected a regular file\n")
        self.assertTrue(pipe.is_fifo() and lost.is_symlink() and not lost.exists())
        (self.path / "old").write_bytes(b"")
        link.symlink_to("old")
        self.record("nan", MLAC_RECORD=str(link))
        self.assertTrue(link.is_symlink())
        self.assertIn("pool/0/pages", read_header(self.path / "old"))

    @unittest.skipUnless(NVTX_RECORDER, "MLAC_NVTX_RECORDER is not set")
    def test_a_profiler_sees_steps_and_layers(self):
        """By the interface of NVTX 3; the recorder prints what a profiler would show."""
        _, text = self.record("none", NVTX_INJECTION64_PATH=NVTX_RECORDER, MLAC_RECORD="")
        plan = "mla_step_plan {\n  %s\n}\n"
        layer = "mla_step_run_bound {\n  %s {\n  }\n}\n"
        wanted = ""
        for function, step in (("prefill", "3 requests, 43 tokens"), ("decode", "3 requests, 3 tokens"),
                               ("decode", "1 requests, 1 tokens")):
            wanted += plan % f"{function}: {step}" + "".join(layer % f"{function}, layer {i}" for i in (0, 1))
        self.assertEqual(text, wanted)
        for other in ("/nowhere/profiler.so", os.environ["MLAC_RUNTIME_LIBRARY"]):  # no profilers
            self.assertEqual(self.record("none", NVTX_INJECTION64_PATH=other), ([], ""))


def header_end(header):
    """Bytes of data behind the header."""
    return max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")


if __name__ == "__main__":
    unittest.main()
