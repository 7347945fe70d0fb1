//===- Help.cpp - what mla-run says about itself ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

using namespace mlac::run;

static const char kOverview[] =
    R"(mla-run: look into packages of mla-compile, check them, and measure them

  mla-run info PACKAGE [--json]
      What the package holds: model, cache layout, weights, kernels, functions.
  mla-run check PACKAGE --weights=PATH [options]
  mla-run check PACKAGE --random [options]
      Runs one layer over a paged cache and compares every output with stored
      outputs or with a float64 reference.
  mla-run bench PACKAGE [options]
      Median time of a step, beside the machine's memory and matrix ceilings.
  mla-run replay PACKAGE RECORDING [options]
      Runs the failing step again that MLAC_RECORD wrote, and names the kernel.
  mla-run simulate PACKAGE --kernel=NAME [options]
      Runs one GPU kernel on the host, and compares it with the CPU's code for it.

  mla-run COMMAND --help     options and examples of a command
  mla-run --version          version of the runtime

Examples:
  mla-compile config.json --target=cpu,sm_90a -o model.mlac
  mla-run info model.mlac
  mla-run check model.mlac --weights=layer.safetensors
  mla-run check model.mlac --device=cuda --random --batch=64 --context=4096
  mla-run bench model.mlac --device=cuda --batch=64 --context=4096

Exit code: 0 passed, 1 numbers out of tolerance, 2 error.
)";

static const char kInfo[] =
    R"(mla-run info PACKAGE [options]

  Prints what a package holds: the options it was compiled with, model, cache
  layout, weights to bind, and for each target its kernels (threads, shared
  memory, registers) and functions. Runs nothing and needs no device.

    --layer=N                  of a package with several kinds of layers: one of them
    --json                     everything, as JSON

Examples:
  mla-run info model.mlac
  mla-run info model.mlac --json | python3 -m json.tool

Exit code: 0 the package is sound, 2 error.
)";

static const char kCheck[] =
    R"(mla-run check PACKAGE --weights=PATH [options]
mla-run check PACKAGE --random [options]

  Runs one layer over a paged cache whose unused rows hold NaN: prefill in one
  step, in chunks with cached context, ragged batches, and decode token by token.
  Every output row is compared with the outputs stored in the file. With --random,
  with --batch, or where the file stores no outputs, steps over a cache of random
  rows are compared with a float64 reference instead.

  Packages without prefill are checked token by token, packages of attention alone
  (q_lat, q_pe -> output) against a reference of their own, with --random.

    --layer=N                  of a package with several kinds of layers: one of them
    --weights=PATH             safetensors file of a layer, or a Hugging Face folder; an indexer's
                               weights may lie beside the layer's, and matrices may be fp8
                               codes where the package takes them
    --random                   random weights of the package's shapes, as codes where it takes them
    --module=NAME              attention module, by its name or number (the only one)
    --device=cpu|cuda|cuda:N   where to run (cpu)
    --threads=N                CPU worker threads (0: all processors)
    --chunk-tokens=W           context tokens gathered at a time (default and minimum)
    --num-sms=N                processors that plans split work for (1 and 132)
    --prefill-lens=A,B,...     only one prefill, in steps of these lengths, then decode
    --batch=B                  requests, for the reference (one per context)
    --context=C,...            their cached tokens, for the reference
                               (0,1,15,16,63,64,65,300)
    --query-len=Q              new tokens of each request, for the reference (1 and 5)
    --samples=N                requests compared per step, for the reference (4, or one of each
                               context)
    --cache-scale=X[,Y]        scale of the layer's rows (mla_fp8_tensor; 1); of keys and of
                               values (kv_nhd_fp8)
    --seed=N                   of weights and inputs (1)
    --json                     results as JSON

Examples:
  mla-run check model.mlac --weights=layer.safetensors
  mla-run check model.mlac --weights=model-00001.safetensors --module=model.layers.0.self_attn
  mla-run check model.mlac --weights=DeepSeek-V3 --module=3
  mla-run check model.mlac --random --context=0,1,63,64,65
  mla-run check model.mlac --random --device=cuda --batch=64 --context=4096

Exit code: 0 within the tolerances of docs/spec/mla.md section 14, 1 outside of them,
2 error.
)";

static const char kBench[] =
    R"(mla-run bench PACKAGE [options]

  Median time of one step with random weights (or those of a checkpoint), cache and inputs; its least memory
  traffic and FLOPs; and what fraction of the machine's read bandwidth and matrix
  throughput, measured in the same run, these amount to.

    --layer=N                  of a package with several kinds of layers: one of them
    --weights=PATH             safetensors file, or a Hugging Face folder (random weights)
    --module=NAME              attention module of it, by its name or number (the only one)
    --device=cpu|cuda|cuda:N   where to run (cpu)
    --threads=N                CPU worker threads (0: all processors)
    --batch=B,...              requests (1)
    --context=C,...            cached tokens of each (1024)
    --query-len=Q,...          new tokens of each (1)
                               lists measure every combination; 4k is 4096
    --iters=N                  timed steps (20)
    --profile                  time of every launch as well
    --trace=FILE               steps and launches for Perfetto and chrome://tracing
    --moves                    also move the requests' pages inside the pool (bytes read
                               and written), and swap them to pinned host memory and back
    --report=FILE              a page of figures: times, roofline, with --profile launches
    --no-ceilings              do not measure the machine
    --seed=N                   of weights, cache and inputs (1)
    --json                     results as JSON, an array where there are several
    --csv                      a header and a line for each result

Examples:
  mla-run bench model.mlac --context=4096                        # decode, batch 1
  mla-run bench model.mlac --context=1k,4k,64k --batch=1,16,64 --csv > sweep.csv
  mla-run bench model.mlac --context=1k,4k,64k --profile --report=sweep.html
  mla-run bench model.mlac --device=cuda --trace=step.json
  mla-run bench model.mlac --device=cuda --batch=64 --context=4096 --profile
  mla-run bench model.mlac --device=cuda --context=0 --query-len=2048    # prefill

Exit code: 0 measured, 2 error.
)";

static const char kReplay[] =
    R"(mla-run replay PACKAGE RECORDING [options]

  Runs one recorded step of a layer again, without the engine that it was part of:
  which kernel is the first to write a NaN or to fail, and whether the outputs are
  those that were recorded. A program records its last failing step where the
  environment variable MLAC_RECORD names a file (docs/runtime.md, Watching it).
  Replay only recordings of programs that you trust.

    --layer=N                  of a package with several kinds of layers: one of them
    --device=cpu|cuda|cuda:N   where to run (cpu); the recording's target must be its
    --json                     what was found as JSON

Examples:
  MLAC_RECORD=/tmp/step-%p.safetensors python3 serve.py
  mla-run replay model.mlac /tmp/step-4711.safetensors --device=cuda

Exit code: 0 outputs are numbers, and those that were recorded; 1 they are not; 2 error.
)";

static const char kSimulate[] =
    R"(mla-run simulate PACKAGE --kernel=NAME [options]

  Plans a step, and runs the first launch of one kernel for a GPU on the host: in the
  simulator (docs/simulator.md), which looks for races, deadlocks and what is read before
  it is written, under several orders of events; and as the CPU's code for the same
  program. What both wrote is compared. Needs mla-compile beside it or on the PATH, which
  makes the kernel again from the package's configuration and options; the package's own
  code and launches must be the same, byte by byte, where its assembler is there.

    --layer=N                  of a package with several kinds of layers: one of them
    --kernel=NAME              of a launch of the step (mla-run info lists the kernels), or
                               step: all launches, each on what those before it wrote
    --batch=B                  requests (2)
    --context=C                cached tokens of each (100)
    --query-len=Q              new tokens of each (1)
    --seeds=N                  orders of events (2)

Examples:
  mla-run simulate model.mlac --kernel=absorbed_attention_0
  mla-run simulate model.mlac --kernel=merge_partials --batch=1 --context=4k --seeds=20

Exit code: 0 no defect and equal results; 1 a defect, results or code that differ, or what
mla-compile refuses; 2 error.
)";

const char *mlac::run::getHelp(const std::string &command) {
  if (command.empty())
    return kOverview;
  if (command == "info")
    return kInfo;
  if (command == "check")
    return kCheck;
  if (command == "bench")
    return kBench;
  if (command == "replay")
    return kReplay;
  if (command == "simulate")
    return kSimulate;
  return nullptr;
}
