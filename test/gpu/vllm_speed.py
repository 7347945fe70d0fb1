# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes and prompts of several vLLM engines, timed in turns: of vllm_engine.py --speed. Steps of a
model with all its layers, engine after engine, since a GPU holds one such: --depth."""

import json
import statistics
import subprocess
import time

from vllm_common import (CHUNK, GRAPHS, OURS, SMALL, THEIRS, WHOLE, commands_of,
                         environment_of_layers, result_of)

# Layers of DeepSeek-V3 whose dense part is as wide as one of its experts.
LARGE = {**SMALL, "hidden_size": 7168, "intermediate_size": 2048, "q_lora_rank": 1536,
         "num_hidden_layers": 6, "first_k_dense_replace": 6, "max_position_embeddings": 65536}
# All of DeepSeek-V3's layers. Only the attention of each is of its size, so that it fits one GPU
# beside a cache, and that steps take as long as attention and its projections do.
DEEP = {**LARGE, "intermediate_size": 512, "num_hidden_layers": 61, "first_k_dense_replace": 61}
LONGEST = 32768 + 64
HEADS, BATCHES, CONTEXT, TURNS, STEPS = (128, 16), (128, 64, 8, 1), 4096, 3, 32
PROMPTS = {"1 x 8192": [8192], "4 x 2048": [2048] * 4, "1 x 32768, in pieces": [32768]}
RUNS = 5  # of prompts in a turn
# Back ends of decodes and of prompts, and whether mlac is the whole layer.
ENGINES = {"mlac": (*OURS, False), "mlac, whole": (*OURS, True), "FLASHMLA": (*THEIRS, False),
           "FLASH_ATTN_MLA": ("FLASH_ATTN_MLA", "FLASH_ATTN", False)}
# The same of checkpoints whose projections around attention are e4m3 codes (--codes): mlac keeps
# them, or copies them to 16 bits.
BITS = "mlac, whole, 16 bits"
ENGINES_OF_CODES = {"mlac, whole": (*OURS, True), BITS: (*OURS, True), "mlac": (*OURS, False),
                    "FLASHMLA": (*THEIRS, False)}


def large(heads, fields=LARGE):
    return {**fields, "num_attention_heads": heads, "num_key_value_heads": heads}


def engines_of(options):
    return ENGINES_OF_CODES if options.codes else ENGINES


def quantised(layers):
    """The configuration's part of codes: of the projections around attention alone."""
    others = [f"model.layers.{layer}.mlp.{part}_proj" for layer in range(layers)
              for part in ("gate", "up", "down")]
    return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
            "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", *others]}


def job_for(folder, heads, kind, parallel, fields=LARGE, codes=False):
    """An engine of large layers, whose configuration is written to a folder."""
    backend, prefill, is_whole = (ENGINES_OF_CODES if codes else ENGINES)[kind]
    config = {**large(heads, fields), "architectures": ["DeepseekV3ForCausalLM"],
              "model_type": "deepseek_v3", "torch_dtype": "bfloat16"}
    layers = fields["num_hidden_layers"]
    if codes:
        config["quantization_config"] = quantised(layers)
    whole = {"additional_config": {**WHOLE["additional_config"],
                                   **({"mlac_codes": "none"} if kind == BITS else {})}}
    place = folder / f"large-{heads}-{layers}{'-codes' if codes else ''}"
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    blocks = max(BATCHES) * (CONTEXT // 64 + 10) + (1200 if fields is LARGE else 0)
    longest = LONGEST if fields is LARGE else CONTEXT + 640
    return {"kind": "speed", "model": str(place), "backend": backend, "prefill": prefill,
            "parallel": parallel,
            "options": {**(whole if is_whole else {}),
                        "max_num_seqs": max(BATCHES), "max_num_batched_tokens": CHUNK,
                        "block_size": 64, "max_model_len": longest, "load_format": "dummy",
                        "kv_cache_memory_bytes": blocks * 64 * 576 * 2 * layers,
                        "compilation_config": {**GRAPHS["compilation_config"],
                                               "cudagraph_capture_sizes": [1, 2, 4, 8, 64, 128]}}}


class Server:
    """An engine that times what it is told to; a process for each of its ranks. Once it has failed
    it answers nothing. One that waits makes its engine when it is told anything."""

    def __init__(self, options, folder, heads, kind, fields=LARGE, waits=False):
        self.name = kind
        job = {**job_for(folder, heads, kind, options.tensor_parallel, fields, options.codes),
               "waits": waits}
        keeps = options.codes and kind != BITS
        environment = (environment_of_layers(options, large(heads), keeps)
                       if engines_of(options)[kind][2] else {})
        name = f"speed-{kind.replace(', ', '-')}-{heads}-{fields['num_hidden_layers']}.log"
        self.log = open((options.logs or folder) / name, "w")
        self.ranks = [subprocess.Popen(words, text=True, env=given, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=self.log)
                      for words, given in commands_of(options, job, environment)]

    def read(self):
        """What the first rank answered; None once one has ended."""
        answers = [self._read_of(rank) for rank in self.ranks]
        if any(answer is None for answer in answers):
            self.log.flush()
            print(f"engine {self.name} ended: see {self.log.name}", flush=True)
            self.end()
            return None
        return answers[0] if answers else None

    def _read_of(self, rank):
        for line in rank.stdout:
            self.log.write(line)
            if line.startswith("RESULT "):
                return result_of(line)
        return None

    def tell(self, **order):
        for rank in self.ranks:
            try:
                rank.stdin.write(json.dumps(order) + "\n")
                rank.stdin.flush()
            except BrokenPipeError:
                pass  # read says so

    def ask(self, **order):
        self.tell(**order)
        return self.read()

    def end(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.ranks = []

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(60)
        self.log.close()


def time_heads(options, folder, heads, keep):
    """Calls keep(what, engine, answer) with every answer of the engines of a model."""
    begin = time.monotonic()
    # Packages of whole layers are prepared for one GPU.
    kinds = [kind for kind, (*_, is_whole) in engines_of(options).items()
             if options.tensor_parallel == 1 or not is_whole]
    everyone = [Server(options, folder, heads, kind) for kind in kinds]
    servers = [server for server in everyone if server.read()]
    print(f"[{time.monotonic() - begin:5.1f} s] {heads} heads: up are "
          f"{', '.join(server.name for server in servers)}", flush=True)

    def each(label, **order):
        for server in servers:
            if answer := server.ask(**order):
                keep(label, server.name, answer)

    def all_at_once(**order):
        for server in servers:
            server.tell(**order)
        for server in servers:
            server.read()

    for name, lengths in PROMPTS.items():  # the first turn warms up
        for turn in range(TURNS + 1):
            each(f"prompts {name}" if turn else "warm-up", what="prompts", lengths=lengths,
                 runs=RUNS if turn and max(lengths) <= CHUNK else 1, profile=turn == TURNS)
            servers.reverse()
    all_at_once(what="fill", batch=max(BATCHES), context=CONTEXT,
                tokens=len(BATCHES) * (TURNS + 1) * (STEPS + 24))
    for batch in BATCHES:
        for turn in range(TURNS):
            each(f"decode {batch}", what="decodes", batch=batch, steps=STEPS,
                 profile=turn + 1 == TURNS)
            servers.reverse()
    for server in everyone:
        server.close()
    print(f"[{time.monotonic() - begin:5.1f} s] {heads} heads: done", flush=True)


def time_depth(options, folder, heads, keep):
    """Calls keep(what, engine, answer) with the answers of each engine, one after another."""
    begin = time.monotonic()
    servers = [Server(options, folder, heads, kind, DEEP, waits=True)
               for kind in engines_of(options)]
    for server in servers:
        if not server.ask(what="start"):
            continue
        server.ask(what="fill", batch=max(BATCHES), context=CONTEXT,
                   tokens=len(BATCHES) * TURNS * (STEPS + 8) + 64)
        for batch in BATCHES:
            for _ in range(TURNS):
                if answer := server.ask(what="decodes", batch=batch, steps=STEPS, profile=False):
                    keep(f"decode {batch}", server.name, answer)
        server.close()
        print(f"[{time.monotonic() - begin:5.1f} s] {heads} heads, {DEEP['num_hidden_layers']} "
              f"layers: {server.name} done", flush=True)


def depth_table(heads, found, engines):
    """Lines of a table: steps, and tokens a second of all requests together."""
    yield f"| {heads} heads, {DEEP['num_hidden_layers']} layers | " + " | ".join(engines) + " |"
    yield "|---" * (len(engines) + 1) + "|"
    for what, answers in found.items():
        batch, cells = int(what.split()[-1]), {}
        for engine, rows in answers.items():
            step, graph, plan = (statistics.median(row[part] for row in rows)
                                 for part in ("step", "graph", "plan"))
            cells[engine] = (f"{batch / step * 1e3:.0f} tokens/s, step {step:.2f} ms, graph "
                             f"{graph:.2f}, plan {plan:.3f}")
        yield f"| batch {batch} | " + " | ".join(cells.get(kind, "-") for kind in engines) + " |"


def table_of(heads, found, engines):
    """Lines of a table from {what: {engine: [answers]}}: what each engine took, and how many times
    as long as ours. Steps wait for the host where it takes longer than their graph, so that they are
    those of the turn with the fastest host; prompts have no graph, but kernels, which may overlap."""
    yield f"| {heads} heads | " + " | ".join(engines) + " |"
    yield "|---" * (len(engines) + 1) + "|"

    def line(label, values):
        ours = values[0]
        cells = [f"{value:.3f} ({value / ours:.2f})" if value and ours else "-" for value in values]
        return f"| {label} | " + " | ".join(cells) + " |"

    def values(answers, take):
        return [statistics.median(map(take, answers[engine])) if answers.get(engine) else 0
                for engine in engines]

    for what in found:
        if what.startswith("prompts"):
            for label, part in (("", "seconds"), (" of the plans", "plans")):
                yield line(f"{what}, ms{label}", values(
                    found[what], lambda answer: statistics.median(answer[part]) * 1e3))
            sums = {engine: sum(answers[-1]["kernels"].values()) / 1e3
                    for engine, answers in found[what].items()}
            yield line(f"{what}, ms of its kernels", [sums.get(engine, 0) for engine in engines])
        elif what.startswith("decode"):
            fastest = {engine: [min(answers, key=lambda row: row["host"])]
                       for engine, answers in found[what].items()}
            for part, label, of in (("step", "step", fastest), ("host", "host's loop then", fastest),
                                    ("graph", "graph", found[what]), ("plan", "plan", found[what])):
                yield line(f"{what}, ms of the {label}", values(of, lambda row: row[part]))


def measure(options, folder, take=time_heads, table=table_of, name="speed"):
    raw = {}
    for heads in options.heads:
        found = raw.setdefault(heads, {})

        def keep(what, engine, answer):
            found.setdefault(what, {}).setdefault(engine, []).append(answer)
            if options.logs:
                (options.logs / f"{name}.json").write_text(json.dumps(raw))

        take(options, folder, heads, keep)
        print("\n".join(table(heads, found, list(engines_of(options)))), flush=True)


def measure_depth(options, folder):
    measure(options, folder, time_depth, depth_table, "depth")
