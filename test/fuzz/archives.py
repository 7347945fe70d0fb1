# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged torch.export archives: refused by an error that names the file, or imported as what they
compute. What was changed and is still imported is run (aten.py) beside the graph that it came from,
with the weights that mla-compile wrote: both must give the same."""

import copy
import json
import math
import pathlib
import random
import struct
import tempfile
import zipfile

import aten
import common
import numpy

GOLDEN = common.ROOT / "test/data/golden"
CONFIGS = common.ROOT / "test/Import/Graph/Inputs"
# Archive, configuration, and the file with an input and the tables of rope.
MODELS = [("deepseek_v3_tiny_static", "v3", "deepseek_v3_tiny_attention"),
          ("deepseek_v3_tiny_dynamic", "v3", "deepseek_v3_tiny_attention"),
          ("minicpm3_sdpa", "minicpm3", "minicpm3_sdpa"),
          ("llama_gqa", "llama", "llama_gqa"),
          ("llama_gqa_dynamic", "llama", "llama_gqa"),
          ("llama_gqa_decomposed", "llama", "llama_gqa")]
NUMBERS = [0, 1, -1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 24, 32, 40, 64, 96, 1 << 31, (1 << 63) - 1,
           -(1 << 63), 0.5, 1e-6, 1e-5, 1e300, -1.0]
OTHERS = [None, True, False, "", "x" * 1000, [], {}, [1], "Infinity", "NaN"]
TOLERANCE = 1e-9


def read_tensors(path):
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + size]), content[8 + size:]
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[slice(*tensor["data_offsets"])], numpy.float32)
            .reshape(tensor["shape"]).astype(numpy.float64)
            for name, tensor in header.items() if tensor["dtype"] == "F32"}


class Model:
    def __init__(self, archive, config, inputs):
        self.path, self.config = GOLDEN / f"{archive}.pt2", CONFIGS / f"{config}.json"
        self.bytes = self.path.read_bytes()
        with zipfile.ZipFile(self.path) as file:
            self.entries = {name: file.read(name) for name in file.namelist()}
        self.root = next(iter(self.entries)).split("/")[0]
        self.model = json.loads(self.entries[f"{self.root}/models/model.json"])
        tensors = read_tensors(GOLDEN / f"{inputs}.safetensors")
        find = lambda *ends: next(t for n, t in tensors.items() if n.endswith(ends))
        tokens = find("hidden_states").shape[1]
        self.inputs = {"hidden_states": find("hidden_states")[:1],
                       "cos": find("position_embeddings.0", "cos"),
                       "sin": find("position_embeddings.1", "sin"),
                       "mask": numpy.triu(numpy.full((1, 1, tokens, tokens), -numpy.inf), 1)}

    def weights(self, entries):
        """By the archive's own list."""
        lines = json.loads(entries[f"{self.root}/data/weights/model_weights_config.json"])
        return {name: self.weight(entries, line) for name, line in lines["config"].items()}

    def weight(self, entries, line):
        meta, stored = line["tensor_meta"], entries[f"{self.root}/data/weights/{line['path_name']}"]
        shape = [size["as_int"] for size in meta["sizes"]]
        first = meta["storage_offset"]["as_int"] * numpy.dtype(numpy.float32).itemsize
        return numpy.frombuffer(stored, numpy.float32, math.prod(shape),
                                first).reshape(shape).astype(numpy.float64)


def leaves(value, path=()):
    """Every place in a JSON value, but what only describes it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("metadata", "module_call_graph", "guards_code", "hint"):
                yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def change_leaf(numbers, tree):
    path = numbers.choice(list(leaves(tree)))
    place = tree
    for key in path[:-1]:
        place = place[key]
    old, way = place[path[-1]], numbers.random()
    if way < 0.1:
        del place[path[-1]]
    elif way < 0.2:
        place[path[-1]] = numbers.choice(OTHERS)
    elif isinstance(old, bool):
        place[path[-1]] = not old
    elif isinstance(old, str):
        same = [p for p in leaves(tree) if p[-1] == path[-1]]
        other = tree
        for key in numbers.choice(same):
            other = other[key]
        place[path[-1]] = other
    elif isinstance(old, (int, float)) and way < 0.6:
        place[path[-1]] = old + numbers.choice([1, -1, 2, -2])
    else:
        place[path[-1]] = numbers.choice(NUMBERS)


def change_nodes(numbers, nodes):
    """The order, the number or the wiring of nodes."""
    way, at, other = numbers.randrange(6), numbers.randrange(len(nodes)), numbers.randrange(len(nodes))
    if way == 0:
        del nodes[at]
    elif way == 1:
        nodes[at], nodes[other] = nodes[other], nodes[at]
    elif way == 2:
        nodes.insert(other, copy.deepcopy(nodes[at]))
    elif way == 3:
        nodes[at]["target"] = nodes[other]["target"]
    elif way == 4:
        nodes[at]["inputs"] = copy.deepcopy(nodes[other]["inputs"])
    else:  # another tensor that the graph has
        tensors = [each["arg"]["as_tensor"] for node in nodes for each in node["inputs"]
                   if "as_tensor" in each["arg"]]
        numbers.choice(tensors)["name"] = numbers.choice(tensors)["name"]


def damage(numbers, content):
    way, changed = numbers.randrange(3), bytearray(content)
    if way == 0:
        return content[:numbers.randrange(len(content))]
    if way == 1:
        begin = numbers.randrange(len(content))
        del changed[begin:begin + numbers.choice([1, 7, 64, 4096])]
        return bytes(changed)
    # Where directories are, at the end, changes matter most.
    last = numbers.choice([len(content), 2000])
    for _ in range(numbers.choice([1, 2, 8])):
        changed[len(content) - 1 - numbers.randrange(last)] = numbers.randrange(256)
    return bytes(changed)


def make_case(seed, number, models):
    """A model, its changed archive and, of a sound zip, the entries in it."""
    numbers = random.Random(f"{seed}/archives/{number}")
    model = numbers.choice(models)
    if numbers.random() < 0.15:
        return model, damage(numbers, model.bytes), None
    entries = dict(model.entries)
    is_list = numbers.random() < 0.15
    name = f"{model.root}/" + ("data/weights/model_weights_config.json" if is_list
                               else "models/model.json")
    tree = json.loads(entries[name])
    for _ in range(numbers.choice([1, 1, 1, 2, 3])):
        if not is_list and numbers.random() < 0.5:
            change_nodes(numbers, tree["graph_module"]["graph"]["nodes"])
        else:
            change_leaf(numbers, tree if numbers.random() < 0.2 or is_list else
                        tree["graph_module"]["graph"]["nodes"])
    entries[name] = json.dumps(tree).encode()
    return model, None, entries


def escapes(model, entries, weights_path):
    """Why an archive that was imported is not what it is imported as, or ""."""
    written = read_tensors(weights_path)
    original = {spec["parameter"]["parameter_name"]
                for spec in model.model["graph_module"]["signature"]["input_specs"]
                if "parameter" in spec}
    bound = {name: written["self_attn." + name.removeprefix("attn.")] for name in original}
    expected = aten.run(model.model, bound, model.inputs)
    changed = json.loads(entries[f"{model.root}/models/model.json"])
    try:
        got = aten.run(changed, model.weights(entries), model.inputs)
    except Exception as error:
        return f"is imported, but cannot be run: {error!r}"
    if isinstance(got, aten.Failure):
        return f"is imported, but cannot be run: {got.why}"
    if got.shape != expected.shape:
        return f"is imported, but gives {got.shape}, not {expected.shape}"
    difference = abs(got - expected).max() / abs(expected).max()
    return "" if difference < TOLERANCE else f"is imported, but differs by {difference:.1e}"


def fuzz(arguments, report):
    compiler = common.tool(arguments, "mla-compile")
    models = [Model(*each) for each in MODELS]
    with tempfile.TemporaryDirectory() as folder:
        path, weights = pathlib.Path(folder) / "layer.pt2", pathlib.Path(folder) / "w.safetensors"
        for number in arguments.numbers:
            model, content, entries = make_case(arguments.seed, number, models)
            if entries is None:
                path.write_bytes(content)
            else:
                with zipfile.ZipFile(path, "w") as file:
                    for name, entry in entries.items():
                        file.writestr(name, entry)
            command = [compiler, str(path), f"--config={model.config}", "--dtype=f32", "--quiet",
                       f"--write-weights={weights}", "--functions=decode", "--emit=mla", "-o",
                       "/dev/null"]
            code, error = common.run(command)
            why = common.judge(code, error, [path.name])
            if not why and code == 0:
                why = escapes(model, entries or model.entries, weights)
            report.count("imported" if code == 0 else "refused")
            if why:
                report.fail(number, why, path, command)
