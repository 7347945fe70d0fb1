# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A sparse layer (DeepSeek-V3.2) on the CPU: on a selection that is given, and on its own.

The file holds a layer, its inputs, the positions that its indexer selected and its outputs, as another
implementation computed them in float64 without quantising anything. On that selection the layer gives
those outputs. Its own indexer scores e4m3 keys, which may put others in the last places.

    python sparse.py LAYER.safetensors

Needs mla-compile (MLAC_COMPILER, or on PATH) and NumPy.
"""

import json
import sys

import mlac
import numpy as np

MODULE = "layers.0.self_attn"


def read(path, names):
    """Tensors of a safetensors file, f32 or i32, by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    types = {"F32": np.float32, "I32": np.int32}
    entries = [header[f"{MODULE}{name}"] for name in names]
    return [np.frombuffer(data[slice(*entry["data_offsets"])],
                          types[entry["dtype"]]).reshape(entry["shape"])[0] for entry in entries]


def run(path, hidden, selected, indexer):
    """Output and selection of one prefill; `selected` is given or written."""
    package = mlac.compile(path, target="cpu", dtype="f32", indexer=indexer)
    engine = mlac.Engine(package, mlac.Device("cpu"), max_num_requests=1,
                         max_num_tokens=len(hidden), max_seq_len=len(hidden))
    engine.bind_safetensors(path, prefix=f"{MODULE}/weights/", allow_extra=True)
    engine.prepare()
    plan, output = engine.plan(), np.empty_like(hidden)
    plan.fill([engine.sequence()], [len(hidden)])
    inputs = {} if selected is None else {"selected": selected}
    plan.run_bound(hidden=hidden, output=output, **inputs)
    return output


def error(output, expected):
    return np.linalg.norm(output - expected) / np.linalg.norm(expected)


def main(path):
    hidden, expected, selected = read(path, ("/hidden_states", "/output.0", ".indexer/output"))
    # Rows of tokens that see fewer keys than are selected are filled with others, which are none.
    selected = np.where(selected <= np.arange(len(selected))[:, None], selected, -1)
    given = error(run(path, hidden, selected.astype(np.int32), "shared"), expected)
    print(f"on the stored selection: relative error {given:.1e}")
    own = error(run(path, hidden, None, "full"), expected)
    print(f"on its own, over an index cache in e4m3: {own:.1e}")
    return 0 if given < 1e-5 else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
