# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged config.json files: compiled, or refused by an error that names the file."""

import json
import pathlib
import random
import tempfile

import common

VALUES = [None, True, False, 0, -1, 1, 2, 3, 7, 8, 17, 96, 1024, 1 << 20, (1 << 20) + 1, 1 << 31,
          1 << 53, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), 10**400, 0.5, -0.0, 1e308, 1e-320,
          float("nan"), float("inf"), "", "yarn", "x" * 100000, [], {}, [1], [[[[]]]],
          {"type": "yarn"}, {"rope_type": "longrope", "factor": 0}, "\u0000", "\ud800"]
OPTIONS = {"tp": [1, 2, 3, 8, 0, -1, 1 << 20], "page-size": [1, 7, 64, 0, -5, 65537, 1 << 62],
           "form": ["auto", "absorbed", "expanded", "x"], "dtype": ["bf16", "f32", "f16"],
           "absorb": ["online", "offline", "half-query", "half-output", "auto"],
           "emit": ["mla", "tile"], "target": ["cpu", "sm_90a"], "functions": ["decode", "step", "x"]}


def change_keys(numbers, config, keys):
    for _ in range(numbers.choice([1, 1, 1, 2, 3, 6])):
        inner = [config.get(key) for key in ("rope_scaling", "rope_parameters")]
        objects = [config, *(value for value in inner if isinstance(value, dict))]
        target, key = numbers.choice(objects), numbers.choice(keys)
        if numbers.random() < 0.2:
            target.pop(key, None)
        else:
            target[key] = numbers.choice(VALUES)


def damage(numbers, text):
    """Bytes that are not the JSON they were."""
    way = numbers.randrange(8)
    if way == 0:
        return text[:numbers.randrange(len(text))]
    if way == 1:
        return text[:-1] + b',"hidden_size":' + numbers.choice([b"1", b"-1", b'"a"', b"01"]) + b"}"
    if way == 2:
        return text[:-1] + b',"z":' + b"[" * 10**numbers.randrange(1, 6) + b"}"
    if way == 3:
        return text.replace(b"{", b"{" + b" " * 10**6, 1)
    if way == 4:
        return numbers.randbytes(numbers.randrange(1000))
    if way == 5:
        return text.decode("utf-8", "replace").encode("utf-16")
    changed = bytearray(text)
    for _ in range(numbers.choice([1, 3, 20])):
        changed[numbers.randrange(len(changed))] = numbers.randrange(256)
    return bytes(changed)


def make_case(seed, number, configs):
    numbers = random.Random(f"{seed}/configs/{number}")
    config = json.loads(numbers.choice(configs))
    keys = sorted({key for text in configs for key in json.loads(text)} | {"factor", "rope_type"})
    change_keys(numbers, config, keys)
    indent = numbers.choice([None, 2])
    text = json.dumps(config, indent=indent, default=str).encode("utf-8", "surrogatepass")
    if numbers.random() < 0.15:
        text = damage(numbers, text)
    options = [f"--{name}={numbers.choice(values)}" for name, values in OPTIONS.items()
               if numbers.random() < 0.15]
    return text, options


def fuzz(arguments, report):
    compiler = common.tool(arguments, "mla-compile")
    configs = [p.read_text() for p in sorted((common.ROOT / "test/data/configs").glob("*.json"))]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        for number in arguments.numbers:
            text, options = make_case(arguments.seed, number, configs)
            path.write_bytes(text)
            command = [compiler, str(path), "--quiet", "--emit=mla", "-o", "/dev/null", *options]
            command = [c for c in command if c != "--emit=mla" or "--emit=tile" not in options]
            command = list(dict.fromkeys(command))
            code, error = common.run(command)
            why = common.judge(code, error, [path.name])
            report.count("compiled" if code == 0 else "refused")
            if why:
                report.fail(number, why, path, command)
