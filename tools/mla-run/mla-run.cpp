//===- mla-run.cpp - runs, checks and measures packages ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "mla_runtime.h"

#include <cstdio>
#include <exception>

using namespace mlac::run;

static const char kHelp[] =
    R"(mla-run: look into packages of mla-compile, check them, and measure them

  mla-run info PACKAGE [--json]
      What the package holds: model, cache layout, weights, kernels, functions.

  mla-run check PACKAGE --weights=LAYER.safetensors [options]
      Runs one layer over a paged cache whose unused rows hold NaN: prefill in
      one step, in chunks with cached context, ragged batches, and decode token
      by token; compares every output row with the outputs stored in the file,
      or, where it stores none, with a float64 reference.
  mla-run check PACKAGE --random [options]
      The same comparison with random weights of the package's shapes.

    --device=cpu|cuda|cuda:N   where to run (cpu)
    --threads=N                CPU worker threads (all processors)
    --module=NAME              module of the file (its only attention module)
    --chunk-tokens=W           context tokens gathered at a time (default and minimum)
    --num-sms=N                processors that plans split work for (1 and 132)
    --prefill-lens=A,B,...     only one prefill, in steps of these lengths, then decode
    --batch=B --context=C,...  requests and their cached tokens, for the reference
    --query-len=Q              new tokens of each request, for the reference (1 and 5)
    --samples=N                rows compared per step, for the reference (4)
    --seed=N                   of weights and inputs (1)
    --json                     results as JSON

  mla-run bench PACKAGE [--device=cuda] [--batch=B] [--context=C] [--query-len=Q]
                [--iters=N] [--profile] [--no-ceilings] [--seed=N] [--json]
      Median time of a step with random weights, beside the memory and matrix
      ceilings of the machine measured in the same run.

Examples:
  mla-compile config.json --target=cpu,sm_90a -o model.mlac
  mla-run info model.mlac
  mla-run check model.mlac --weights=layer.safetensors
  mla-run check model.mlac --device=cuda --random --batch=64 --context=4096
  mla-run bench model.mlac --device=cuda --batch=64 --context=4096

Exit code: 0 passed, 1 numbers out of tolerance, 2 error.
)";

static int dispatch(const std::string &command, const std::vector<std::string> &words) {
  if (command == "info")
    return runInfo(words);
  if (command == "check")
    return runCheck(words);
  if (command == "bench")
    return runBench(words);
  std::fprintf(stderr, "mla-run: unknown command '%s'; known: info, check, bench (see --help)\n",
               command.c_str());
  return kError;
}

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::fputs(kHelp, words.empty() ? stderr : stdout);
    return words.empty() ? kError : kPassed;
  }
  if (words[0] == "--version") {
    std::printf("mla-run %s\n", mla_runtime_version());
    return kPassed;
  }
  try {
    return dispatch(words[0], {words.begin() + 1, words.end()});
  } catch (const std::exception &error) {
    std::fprintf(stderr, "mla-run %s: error: %s\n", words[0].c_str(), error.what());
    return kError;
  }
}
