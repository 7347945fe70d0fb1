# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One vLLM engine in a process of its own, for vllm_engine.py: reads a job (JSON) from argv[1].

    {"kind": "logits", ...}: decodes given tokens and stores the logits before each of them
    {"kind": "tokens", ...}: decodes, of an engine whose workers are processes of vLLM's own
    {"kind": "speed", ...}: answers each line of standard input, a batch to time, with a line

An engine of several GPUs is, but for "tokens", as many of these processes, as torchrun starts them.
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
# Between GPUs NCCL reduces: engines that are compared take the same way.
os.environ.setdefault("VLLM_ALLREDUCE_USE_SYMM_MEM", "0")


def start(job):
    from vllm import LLM

    options = {"skip_tokenizer_init": True, "seed": 0, "gpu_memory_utilization": 0.5,
               "kv_cache_memory_bytes": 1 << 30, "enable_prefix_caching": False,
               "attention_config": {"backend": job["backend"],
                                    **({"mla_prefill_backend": job["prefill"]}
                                       if job.get("prefill") else {})}}
    ranks = job.get("parallel", 1)
    if ranks > 1:
        options |= {"tensor_parallel_size": ranks, "disable_custom_all_reduce": True}
        if job["kind"] != "tokens":
            options["distributed_executor_backend"] = "external_launcher"
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
    if os.environ.get("RANK", "0") == "0":
        torch.save(rounds, job["output"])
    mode = llm.llm_engine.vllm_config.compilation_config.cudagraph_mode
    return {"start": took, "written": written, "replays": len(replays.events), "mode": str(mode),
            "runner": type(runner_of(llm)).__module__}


class Extension:
    """What a worker of vLLM can be asked."""

    def attention_builders(self):
        return sorted({f"{type(builder).__module__}.{type(builder).__qualname__}"
                       for builder in builders_of(self.model_runner)})


def builders_of(runner):
    """Those of the metadata of attention."""
    return [builder for groups in runner.attn_groups for group in groups
            for builder in group.metadata_builders]


def take_tokens(job):
    job["options"]["worker_extension_cls"] = "vllm_job.Extension"
    llm, took = start(job)
    from vllm import SamplingParams

    work = job["rounds"][0]
    done = llm.generate([{"prompt_token_ids": prompt} for prompt in work["prompts"]],
                        SamplingParams(temperature=0, max_tokens=len(work["tokens"][0]),
                                       ignore_eos=True, detokenize=False), use_tqdm=False)
    builders = llm.collective_rpc("attention_builders")
    return {"start": took, "tokens": [list(each.outputs[0].token_ids) for each in done],
            "builders": [name for worker in builders for name in worker]}


LOOP = 200_000  # turns of a loop that says how fast the host is


def time_host():
    """Milliseconds of a loop of Python's: a process may be on a core that is slower for a while, by
    half, and steps that wait for the host are slower by as much, whatever attends."""
    begin, total = time.perf_counter(), 0
    for number in range(LOOP):
        total += number
    return (time.perf_counter() - begin) * 1e3


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
        self.count, self.names, self.planning = 0, [], []
        for builder in builders_of(runner_of(self.llm)):
            self.watch(builder)

    def watch(self, builder):
        """How long the host plans steps."""
        build = builder.build

        def timed(*args, **kwargs):
            begin = time.perf_counter()
            metadata = build(*args, **kwargs)
            self.planning.append(time.perf_counter() - begin)
            return metadata

        builder.build = timed

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

    def prompts(self, lengths, runs, profile):
        """Seconds of so many prompts, from their arrival to their first tokens, in each of some
        runs, and of what their planning takes the host. One before warms up: another engine's
        work was the GPU's last."""
        def run():
            for length in lengths:
                self.add(length, 1)
            self.torch.cuda.synchronize()
            self.planning.clear()
            begin = time.perf_counter()
            self.drain()
            return time.perf_counter() - begin, sum(self.planning)

        run()
        taken = [run() for _ in range(runs)]
        return {"seconds": [took for took, _ in taken], "plans": [plan for _, plan in taken],
                "kernels": self.kernels(run, 1) if profile else {}}

    def fill(self, batch, context, tokens):
        """Starts so many requests, which decode from now on."""
        started, self.names = set(), [self.add(context, tokens) for _ in range(batch)]
        while len(started) < batch:
            started |= {done.request_id for done in self.engine.step() if done.outputs[0].token_ids}
        self.torch.cuda.synchronize()
        return {"started": len(started)}

    def decodes(self, batch, steps, profile):
        """Of the first so many requests, the others end: milliseconds of a step, of its graph, of
        what its planning takes the host, and of time_host."""
        self.engine.abort_request(self.names[batch:])
        self.names = self.names[:batch]
        for _ in range(8):
            self.engine.step()
        self.replays.take()
        self.planning.clear()
        before = time_host()
        moments = [time.perf_counter()]
        for _ in range(steps):
            self.engine.step()
            moments.append(time.perf_counter())
        graphs = self.replays.take()
        took = [end - begin for begin, end in zip(moments, moments[1:])]
        return {"batch": batch, "step": statistics.median(took) * 1e3,
                "graph": statistics.median(graphs) if graphs else math.nan,
                "plan": statistics.median(self.planning) * 1e3, "host": (before + time_host()) / 2,
                "kernels": self.kernels(self.engine.step, 4) if profile else {}}

    def kernels(self, run, count):
        """Microseconds of each kernel in one of `count` runs."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as taken:
            for _ in range(count):
                run()
            self.torch.cuda.synchronize()
        return {event.key: event.device_time_total / count for event in taken.key_averages()
                if event.device_time_total > 0}

    def answer(self, order):
        return {"prompts": self.prompts, "fill": self.fill,
                "decodes": self.decodes}[order.pop("what")](**order)


def main(job):
    if job["kind"] != "speed":
        take = store_logits if job["kind"] == "logits" else take_tokens
        print("RESULT " + json.dumps(take(job)), flush=True)
        return
    if job.get("waits"):  # for the GPU's memory; what takes no memory is done before
        import vllm.model_executor.models.deepseek_v2  # noqa: F401
        from vllm import LLM  # noqa: F401

        sys.stdin.readline()
    timer = Timer(job)
    mode = timer.engine.vllm_config.compilation_config.cudagraph_mode
    print("RESULT " + json.dumps({"start": timer.took, "mode": str(mode)}), flush=True)
    for line in sys.stdin:
        print("RESULT " + json.dumps(timer.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
