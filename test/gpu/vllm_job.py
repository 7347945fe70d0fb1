# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One vLLM engine in a process of its own, for vllm_engine.py: reads a job (JSON) from argv[1].

    {"kind": "logits", ...}: decodes given tokens and stores the logits before each of them
    {"kind": "speed", ...}: answers each line of standard input, a batch to time, with a line
"""

import json
import math
import os
import statistics
import sys
import time

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
                  VLLM_USE_FLASHINFER_SAMPLER="0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")


def start(job):
    from vllm import LLM

    options = {"skip_tokenizer_init": True, "seed": 0, "gpu_memory_utilization": 0.5,
               "kv_cache_memory_bytes": 1 << 30, "enable_prefix_caching": False,
               "attention_config": {"backend": job["backend"],
                                    **({"mla_prefill_backend": job["prefill"]}
                                       if job.get("prefill") else {})}}
    begin = time.perf_counter()
    llm = LLM(model=job["model"], **{**options, **job["options"]})
    took = time.perf_counter() - begin
    return llm, took


def runner_of(llm):
    """vLLM's model runner of this process."""
    return llm.llm_engine.model_executor.driver_worker.worker.model_runner


class Replays:
    """Counts CUDA graphs that are replayed, and times them on the GPU."""

    def __init__(self, torch):
        self.torch, self.events, replay = torch, [], torch.cuda.CUDAGraph.replay

        def timed(graph):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            replay(graph)
            end.record()
            self.events.append((begin, end))

        torch.cuda.CUDAGraph.replay = timed

    def take(self):
        """Milliseconds of each replay since the last call."""
        self.torch.cuda.synchronize()
        events, self.events = self.events, []
        return [begin.elapsed_time(end) for begin, end in events]


class Forced:
    """Stands around a model's logits: keeps them, and lets only the given token be sampled."""

    def __init__(self, torch, llm, model_class):
        self.torch, self.tokens = torch, None
        self.scheduler = llm.llm_engine.engine_core.engine_core.scheduler
        self.runner = runner_of(llm)
        self.watch_batches()
        compute = model_class.compute_logits

        def forced(model, hidden, *args, **kwargs):
            logits = compute(model, hidden, *args, **kwargs)
            return logits if self.tokens is None else self.take(logits)

        model_class.compute_logits = forced

    def watch_batches(self):
        """vLLM's second runner sorts each batch by its query lengths, and keeps none of them; the
        first one has one batch for all steps."""
        self.batch = None
        prepare = getattr(self.runner, "prepare_inputs", None)
        if prepare is None:
            return

        def watched(*args, **kwargs):
            self.batch = prepare(*args, **kwargs)
            return self.batch

        self.runner.prepare_inputs = watched

    def requests(self):
        """The request that each row of the logits is of, in their order of arrival."""
        batch = self.runner.input_batch if self.batch is None else self.batch
        arrived = {name: index for index, name in enumerate(self.scheduler.requests)}
        return [arrived[name] for name in batch.req_ids]

    def begin(self, tokens):
        """tokens [requests][steps]"""
        self.tokens, self.kept = tokens, []

    def take(self, logits):
        step = len(self.kept)
        is_partial = any(request.num_computed_tokens < request.num_prompt_tokens
                         for request in self.scheduler.running)
        if is_partial or step >= len(self.tokens[0]):
            return logits
        assert len(logits) == len(self.tokens), (logits.shape, step)
        requests = self.requests()
        kept = self.torch.empty(logits.shape)
        kept[requests] = logits.float().cpu()
        self.kept.append(kept)
        only = self.torch.full_like(logits, -math.inf)
        for row, request in enumerate(requests):
            only[row, self.tokens[request][step]] = 0
        return only

    def end(self):
        self.tokens = None
        return self.torch.stack(self.kept, 1)


def caches_of(runner):
    caches = runner.kv_caches
    return list(caches.values()) if isinstance(caches, dict) else caches


def written_blocks(runner):
    """Blocks of the cache that hold anything."""
    return sum(int(cache.view(len(cache), -1).ne(0).any(1).sum()) for cache in caches_of(runner))


def excuse_requests(torch):
    """vLLM warms its second runner up with requests, which own the blocks that they write: these
    are wiped. A list of how many blocks had been written before them."""
    from vllm.v1.worker import gpu_worker

    written, warm_up = [], gpu_worker.warmup_kernels

    def wiped(runner, *args):
        written.append(written_blocks(runner))
        warm_up(runner, *args)
        with torch.inference_mode():
            for cache in caches_of(runner):
                cache.zero_()

    gpu_worker.warmup_kernels = wiped
    return written


def store_logits(job):
    if job.get("indexer"):
        sys.path.insert(0, job["indexer"])
        import vllm_cpu.indexer  # noqa: F401  in torch
    import torch

    before = excuse_requests(torch)
    llm, took = start(job)
    from vllm import SamplingParams
    from vllm.model_executor.models import deepseek_v2

    written = sum(before) + written_blocks(runner_of(llm))
    forced, replays, rounds = Forced(torch, llm, deepseek_v2.DeepseekV2ForCausalLM), Replays(torch), []
    for work in job["rounds"]:
        steps = len(work["tokens"][0])
        forced.begin(work["tokens"])
        llm.generate([{"prompt_token_ids": prompt} for prompt in work["prompts"]],
                     SamplingParams(temperature=0, max_tokens=steps, ignore_eos=True,
                                    detokenize=False), use_tqdm=False)
        rounds.append(forced.end())
    torch.save(rounds, job["output"])
    mode = llm.llm_engine.vllm_config.compilation_config.cudagraph_mode
    return {"start": took, "written": written, "replays": len(replays.events), "mode": str(mode),
            "runner": type(runner_of(llm)).__module__}


class Timer:
    """Batches of decodes and prompts on one engine."""

    def __init__(self, job):
        import torch
        from vllm import SamplingParams

        self.torch = torch
        self.llm, self.took = start(job)
        self.engine, self.replays = self.llm.llm_engine, Replays(self.torch)
        self.vocabulary = self.llm.model_config.hf_config.vocab_size
        self.make = lambda tokens: SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True,
                                                  detokenize=False)
        self.count = 0

    def add(self, length, tokens):
        generator = self.torch.Generator().manual_seed(self.count)
        prompt = self.torch.randint(2, self.vocabulary, (length,), generator=generator).tolist()
        self.count += 1
        self.engine.add_request(str(self.count), {"prompt_token_ids": prompt}, self.make(tokens))
        return str(self.count)

    def drain(self):
        while self.engine.has_unfinished_requests():
            self.engine.step()
        self.torch.cuda.synchronize()

    def prompts(self, lengths):
        """Seconds of so many prompts, from their arrival to their first tokens."""
        for length in lengths:
            self.add(length, 1)
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        self.drain()
        return time.perf_counter() - begin

    def decodes(self, batches, context, steps, profile):
        """Of each batch, the largest first: milliseconds of a step, and of its graph."""
        started, names = set(), [self.add(context, 16 * len(batches) + 2 * steps * len(batches))
                                 for _ in range(max(batches))]
        while len(started) < len(names):
            started |= {done.request_id for done in self.engine.step() if done.outputs[0].token_ids}
        found = []
        for batch in sorted(batches, reverse=True):
            self.engine.abort_request(names[batch:])
            names = names[:batch]
            for _ in range(8):
                self.engine.step()
            self.replays.take()
            begin = time.perf_counter()
            for _ in range(steps):
                self.engine.step()
            graphs = self.replays.take()
            found.append({"batch": batch, "step": (time.perf_counter() - begin) / steps * 1e3,
                          "graph": statistics.median(graphs) if graphs else math.nan,
                          "kernels": self.kernels() if profile else {}})
        self.engine.abort_request(names)
        self.drain()
        return found

    def kernels(self):
        """Microseconds of each kernel in a step."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as taken:
            for _ in range(4):
                self.engine.step()
            self.torch.cuda.synchronize()
        return {event.key: event.device_time_total / 4 for event in taken.key_averages()
                if event.device_time_total > 0}

    def answer(self, order):
        if order["what"] == "prompts":
            return {"seconds": self.prompts(order["lengths"])}
        return {"rows": self.decodes(order["batches"], order["context"], order["steps"],
                                     order["profile"])}


def main(job):
    if job["kind"] == "logits":
        print("RESULT " + json.dumps(store_logits(job)), flush=True)
        return
    timer = Timer(job)
    mode = timer.engine.vllm_config.compilation_config.cudagraph_mode
    print("RESULT " + json.dumps({"start": timer.took, "mode": str(mode)}), flush=True)
    for line in sys.stdin:
        print("RESULT " + json.dumps(timer.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
