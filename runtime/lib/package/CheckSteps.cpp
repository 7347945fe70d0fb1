//===- CheckSteps.cpp - steps of a package's function -----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/CheckSteps.h"

#include "package/Checks.h"
#include "package/TensorMaps.h"

using namespace mlac::runtime;

namespace {
/// Walks the steps of a function; recursion is bounded by kMaxStepDepth.
class StepVerifier {
public:
  using Spend = std::function<Status(int64_t)>;
  StepVerifier(const fb::Target &target, const FunctionInfo &function, Spend spend)
      : target(target), function(function), spend(std::move(spend)) {}

  Status run(const StepList *steps, uint32_t loopDepth, uint32_t depth) {
    if (depth > kMaxStepDepth)
      return error(MLA_CORRUPT, "steps are nested deeper than ", kMaxStepDepth);
    for (uint32_t i = 0; i < sizeOf(steps); ++i) {
      MLAC_RETURN_IF_ERROR(spend(1));
      MLAC_RETURN_IF_ERROR(check(*steps->Get(i), loopDepth, depth).in("step ", i));
    }
    return Status();
  }

private:
  Status check(const fb::Step &step, uint32_t loopDepth, uint32_t depth) {
    int set = !!step.launch() + !!step.loop() + !!step.branch() + !!step.fork();
    if (set != 1)
      return error(MLA_CORRUPT, "expected one of launch, loop, branch and fork, got ", set);
    if (step.launch())
      return check(*step.launch(), loopDepth);
    if (const fb::Loop *loop = step.loop()) {
      MLAC_RETURN_IF_ERROR(requireExpr("loop count", function.exprs, loop->count(), loopDepth));
      return run(loop->body(), loopDepth + 1, depth + 1);
    }
    if (step.fork())
      return check(*step.fork(), depth);
    const fb::Branch &branch = *step.branch();
    MLAC_RETURN_IF_ERROR(requireExpr("condition", function.exprs, branch.condition(), loopDepth));
    MLAC_RETURN_IF_ERROR(run(branch.then_steps(), loopDepth, depth + 1));
    return run(branch.else_steps(), loopDepth, depth + 1);
  }

  Status check(const fb::Fork &fork, uint32_t depth) {
    if (depth != 0)
      return error(MLA_CORRUPT, "a fork is inside of another step");
    MLAC_RETURN_IF_ERROR(requireExpr("condition", function.exprs, fork.condition(), 0));
    MLAC_RETURN_IF_ERROR(run(fork.main(), 0, depth + 1));
    return run(fork.side(), 0, depth + 1);
  }

  Status check(const fb::Launch &launch, uint32_t loopDepth) {
    if (launch.kernel() >= sizeOf(target.kernels()))
      return error(MLA_CORRUPT, "launches kernel ", launch.kernel(), " of ",
                   sizeOf(target.kernels()));
    if (sizeOf(launch.grid()) != 3)
      return error(MLA_CORRUPT, "expected 3 grid expressions, got ", sizeOf(launch.grid()));
    for (uint32_t expr : *launch.grid())
      MLAC_RETURN_IF_ERROR(requireExpr("grid", function.exprs, expr, loopDepth));
    MLAC_RETURN_IF_ERROR(requireRange("number of arguments",
                                      static_cast<int64_t>(sizeOf(launch.args())), 0, kMaxArgs));
    MLAC_RETURN_IF_ERROR(checkLength("label", launch.label()));
    MLAC_RETURN_IF_ERROR(spend(static_cast<int64_t>(sizeOf(launch.args()))));
    for (uint32_t i = 0; i < sizeOf(launch.args()); ++i)
      MLAC_RETURN_IF_ERROR(check(*launch.args()->Get(i), loopDepth).in("argument ", i));
    const fb::Kernel &kernel = *target.kernels()->Get(launch.kernel());
    return verifyTensorMapArgs(kernel, launch).in("kernel '", text(kernel.name()), "'");
  }

  Status check(const fb::Arg &arg, uint32_t loopDepth) {
    switch (arg.kind()) {
    case fb::ArgKind::Buffer:
      if (arg.buffer() < function.buffers.size())
        return Status();
      return error(MLA_CORRUPT, "buffer ", arg.buffer(), " of ", function.buffers.size());
    case fb::ArgKind::Index:
      return requireExpr("index", function.exprs, arg.expr(), loopDepth);
    case fb::ArgKind::F32:
      return Status();
    }
    return error(MLA_CORRUPT, "unknown kind ", arg.kind());
  }

  const fb::Target &target;
  const FunctionInfo &function;
  Spend spend;
};
} // namespace

Status mlac::runtime::checkSteps(const fb::Target &target, const FunctionInfo &function,
                                 const StepList *steps, std::function<Status(int64_t)> spend) {
  return StepVerifier(target, function, std::move(spend)).run(steps, 0, 0);
}
