# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac.compile: a package from Python, by the mla-compile that MLAC_COMPILE names.

Needs neither NumPy nor torch; a configuration of transformers is stood for by an object
with its methods."""

import contextlib
import io
import json
import os
import pathlib
import tempfile
import unittest
import warnings
from unittest import mock

import mlac

COMPILE = os.environ["MLAC_COMPILE"]
CONFIGS = pathlib.Path(__file__).parent.parent / "data/configs"
TINY = CONFIGS / "deepseek_v3_tiny.json"


class HuggingFaceConfig:
    """What mlac.compile uses of a transformers configuration."""

    def __init__(self, fields):
        self._fields = fields

    def to_json_string(self, use_diff=True):
        return "{}" if use_diff else json.dumps(self._fields)


class Composite(HuggingFaceConfig):
    """One of a model with parts, whose language model has a configuration of its own."""

    def __init__(self, text):
        super().__init__({"model_type": "kimi_k25"})
        self._text = text

    def get_text_config(self):
        return self._text


class Model:
    def __init__(self, config, dtype):
        self.config, self.dtype = config, dtype


class CompileTest(unittest.TestCase):
    def setUp(self):
        self.fields = json.loads(TINY.read_text())
        self.options = {"target": "cpu", "functions": ["decode"], "compiler": COMPILE}

    def compile(self, source, **options):
        return mlac.compile(source, **{**self.options, **options})

    def test_sources(self):
        config = HuggingFaceConfig(self.fields)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text(TINY.read_text())
            for source in (TINY, str(TINY), folder, self.fields, config, Composite(config)):
                with self.subTest(source=type(source).__name__):
                    info = self.compile(source, dtype="f32").info
                    self.assertEqual(info["model"]["hidden_size"], self.fields["hidden_size"])
                    self.assertEqual(info["model"]["activation_dtype"], "f32")
                    self.assertEqual([f["name"] for f in info["targets"][0]["functions"]
                                      if f["name"] in ("prefill", "decode")], ["decode"])

    def test_A14_whole_model_says_how_weights_are_quantised(self):
        whole = Composite(HuggingFaceConfig(self.fields))
        whole.quantization_config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
        self.assertEqual(self.compile(whole).info["weight_scales"]["block"], [128, 128])

        class Quantization:
            @staticmethod
            def to_dict():
                return {"quant_method": "awq"}

        whole.quantization_config = Quantization()
        with self.assertRaisesRegex(mlac.CompileError, '"awq": weights of this method'):
            self.compile(whole)
        self.assertIsNone(self.compile(whole, dequantised_weights=True).info.get("weight_scales"))

    def test_functions_that_are_none(self):
        for functions in ([], ""):
            with self.assertRaisesRegex(mlac.CompileError, "--functions: expected at least one"):
                self.compile(self.fields, functions=functions)

    def test_model_gives_its_dtype(self):
        config = HuggingFaceConfig(self.fields)
        for dtype, expected in (("torch.float32", "f32"), ("torch.bfloat16", "bf16"),
                                ("torch.float16", "f16")):
            info = self.compile(Model(config, dtype)).info
            self.assertEqual(info["model"]["activation_dtype"], expected)
        with self.assertRaisesRegex(mlac.InvalidArgument, "torch.float64"):
            self.compile(Model(config, "torch.float64"))

    def test_output_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "layer.mlac"
            self.compile(TINY, output=path)
            self.assertEqual(mlac.Package(path).info["bytes"], path.stat().st_size)

    def test_empty_names_are_not_the_current_folder(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                pathlib.Path("config.json").write_text(json.dumps(self.fields))
                with self.assertRaisesRegex(mlac.InvalidArgument, "^source: expected a path, got"):
                    self.compile("")
                with self.assertRaisesRegex(mlac.InvalidArgument, "^output: expected a path, got"):
                    self.compile(self.fields, output="")
                self.assertEqual(os.listdir(), ["config.json"])
            finally:
                os.chdir(before)

    def test_names_that_begin_like_options(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                pathlib.Path("-layer.json").write_text(json.dumps(self.fields))
                self.compile("-layer.json", output="-")  # a file, not standard output
                self.assertTrue(pathlib.Path("-").is_file())
            finally:
                os.chdir(before)

    def test_runs(self):
        package = self.compile(TINY, dtype="f32")
        engine = mlac.Engine(package, mlac.Device("cpu", threads=1), max_seq_len=64)
        self.assertEqual(engine.hidden_size, self.fields["hidden_size"])

    def test_diagnostics(self):
        del self.fields["kv_lora_rank"]
        with self.assertRaises(mlac.CompileError) as caught:
            self.compile(self.fields)
        self.assertIn("kv_lora_rank", str(caught.exception))
        self.assertNotIn(tempfile.gettempdir(), str(caught.exception))
        with self.assertRaisesRegex(mlac.CompileError, "no-such-option"):
            self.compile(TINY, no_such_option=True)
        # The program's nearest options, '--o' and '--tune-batch', are none for these.
        for name in ("foo", "no_such"):
            flag = name.replace("_", "-")
            with self.assertRaisesRegex(mlac.CompileError,
                                        f"^unknown option '{name}': mla-compile has no --{flag}; "
                                        "mla-compile --help lists what it has$"):
                self.compile(TINY, **{name: 1})
        with self.assertRaisesRegex(mlac.CompileError, "^unknown option 'pagesize': mla-compile "
                                    r"has no --pagesize, did you mean page_size\?$"):
            self.compile(TINY, pagesize=64)
        with self.assertRaisesRegex(mlac.CompileError, "absent.json"):
            self.compile("absent.json")
        with self.assertRaisesRegex(mlac.InvalidArgument, "emit"):
            self.compile(TINY, emit="mla")
        with self.assertRaisesRegex(mlac.InvalidArgument, "simulate.* makes no package"):
            self.compile(TINY, simulate="step")
        with self.assertRaisesRegex(mlac.InvalidArgument, "got int"):
            self.compile(3)
        with self.assertRaisesRegex(mlac.InvalidArgument, "got JSON: json.loads"):
            self.compile(json.dumps(self.fields))
        with self.assertRaisesRegex(mlac.InvalidArgument, r"got \{1\} of set in the dict"):
            self.compile({**self.fields, "hidden_size": {1}})

    def test_numbers_of_other_libraries(self):
        class Number:
            def item(self):  # as NumPy's and torch's have it
                return 96

        fields = {**self.fields, "hidden_size": Number()}
        self.assertEqual(self.compile(fields).info["model"]["hidden_size"], 96)

    def test_reports_are_printed(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.compile(TINY, cost_report=True)
        self.assertIn("predicted us", printed.getvalue())

    def test_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.compile(CONFIGS / "deepseek_v32.json", indexer="none")
            fields = json.loads(TINY.read_text())
            del fields["rope_parameters"]["mscale"]
            self.compile(fields)
        self.assertIn("index_topk = 2048", str(caught[0].message))
        self.assertRegex(str(caught[1].message), r"json:\d+:\d+: warning: rope_parameters.mscale_all_dim = "
                         "1.0 without mscale")

    def test_compiler_is_found(self):
        del self.options["compiler"]
        with mock.patch.dict(os.environ, MLAC_COMPILER=COMPILE):
            self.compile(TINY)
        with mock.patch.dict(os.environ, MLAC_COMPILER="/absent/mla-compile"):
            with self.assertRaisesRegex(mlac.CompileError, "/absent/mla-compile"):
                self.compile(TINY)
        with mock.patch.dict(os.environ, MLAC_COMPILER="/bin/true"):
            with self.assertRaisesRegex(mlac.CompileError, "/bin/true wrote no package"):
                self.compile(TINY)
        clean = {"PATH": os.path.dirname(COMPILE)}
        with mock.patch.dict(os.environ, clean, clear=True):
            self.compile(TINY)
            with mock.patch("mlac._find_compiler.COMPILER", "mla-compile-absent"):
                with self.assertRaisesRegex(mlac.CompileError, "set MLAC_COMPILER"):
                    self.compile(TINY)


if __name__ == "__main__":
    unittest.main()
