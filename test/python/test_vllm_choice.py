# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What mlac.vllm's back ends say of themselves, and which one CUSTOM is. Where vLLM or torch are
not installed, empty classes stand for what is imported from them."""

import importlib
import importlib.util
import sys
import types
import unittest
from unittest import mock

import mlac.vllm

VLLM = ["vllm", "vllm.config", "vllm.model_executor.layers.attention.mla_attention",
        "vllm.model_executor.layers.attention.sparse_mla_attention",
        "vllm.model_executor.layers.quantization.utils.quant_utils", "vllm.v1.attention.backend",
        "vllm.v1.attention.backends.mla.prefill.base"]


def is_special(name):
    return name.startswith("__")


class AnyMember(type):
    def __getattr__(cls, name):
        if is_special(name):
            raise AttributeError(name)
        return name


class StandIn(types.ModuleType):
    """A module that has any class."""

    __path__ = []

    def __getattr__(self, name):
        if is_special(name):
            raise AttributeError(name)
        if module := sys.modules.get(f"{self.__name__}.{name}"):
            return module
        made = AnyMember(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)})
        setattr(self, name, made)
        return made


def stand_ins():
    found = {}
    for package, names in (("vllm", VLLM), ("torch", ["torch"]), ("numpy", ["numpy"])):
        if importlib.util.find_spec(package):
            importlib.import_module(package)  # to stay when the stand-ins go
            continue
        parts = [".".join(name.split(".")[:count + 1]) for name in names
                 for count in range(name.count(".") + 1)]
        found |= {part: StandIn(part) for part in parts}
    return found


class ChoiceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        patch = mock.patch.dict(sys.modules, stand_ins())
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.dense, cls.sparse, cls.choice = (
            importlib.import_module(f"mlac.vllm.{name}") for name in ("backend", "sparse", "choice"))
        cls.torch = importlib.import_module("torch")

    def choose(self, **fields):
        """The class that vLLM's name for mlac stands for, in an engine of such a model."""
        module, name = mlac.vllm.BACKEND.rsplit(".", 1)
        config = types.SimpleNamespace(
            model_config=types.SimpleNamespace(hf_text_config=types.SimpleNamespace(**fields)))
        with mock.patch("vllm.config.get_current_vllm_config_or_none", lambda: config):
            return getattr(importlib.import_module(module), name)

    def test_B01_sparse_models_get_the_sparse_back_end(self):
        chosen = self.choose(index_topk=2048)
        self.assertIs(chosen, self.sparse.Backend)
        self.assertTrue(chosen.is_mla() and chosen.is_sparse())
        self.assertIs(chosen.get_impl_cls(), self.sparse.Impl)
        for fields in ({}, {"index_topk": None}):
            self.assertIs(self.choose(**fields), self.dense.Backend)
        self.assertEqual({chosen.get_name(), self.dense.Backend.get_name()}, {"CUSTOM"})

    def test_B01_devices_that_are_not_hopper_are_rejected(self):
        served = [major for major in range(7, 13) if self.sparse.Backend.supports_compute_capability(
            types.SimpleNamespace(major=major, minor=0))]
        self.assertEqual(served, [9])

    def test_B01_types(self):
        backend, torch = self.sparse.Backend, self.torch
        self.assertEqual(set(backend.supported_dtypes),
                         {torch.bfloat16, torch.float16, torch.float32})
        self.assertEqual(set(backend.supported_kv_cache_dtypes),
                         {"auto", "bfloat16", "fp8_ds_mla"})
        for dtype, is_refused in ((torch.bfloat16, False), (torch.float16, True)):
            reason = backend.supports_combination(576, dtype, "fp8_ds_mla", 64, use_mla=True,
                                                  has_sink=False, use_sparse=True)
            self.assertEqual(reason is not None, is_refused, reason)

    def test_dense_back_end_refuses_what_it_does_not_serve(self):
        for options, reason in (({"use_sparse": True}, "sparse"), ({"has_sink": True}, "sinks"),
                                ({"use_mla": False}, "Multi-head Latent")):
            said = self.dense.Backend.supports_combination(
                576, self.torch.bfloat16, "auto", 64,
                **{"use_mla": True, "has_sink": False, "use_sparse": False, **options})
            self.assertIn(reason, said)


if __name__ == "__main__":
    unittest.main()
