# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of mlac in models of Hugging Face transformers::

    import mlac.transformers

    model = AutoModelForCausalLM.from_pretrained(...).eval()
    patched = mlac.transformers.patch(model)      # compiles, binds, replaces
    model.generate(**inputs, num_beams=4)
    patched.unpatch()

Every attention layer's projections, rotary embedding, cache and output projection are then
one step of an engine; the rest of the model stays torch's. Needs torch and transformers
(_versions.py says which).
"""

from ._versions import check_versions

check_versions()

from ._cache import Cache  # noqa: E402  (imports what was checked)
from ._patch import Patched, patch  # noqa: E402

__all__ = ["Cache", "Patched", "patch"]
