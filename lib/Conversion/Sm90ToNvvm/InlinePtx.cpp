//===- InlinePtx.cpp - the instructions that no NVVM op covers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only file with assembly text.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"
#include "PinThread.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

static LLVM::InlineAsmOp emitAssembly(ImplicitLocOpBuilder &b, Type result, ValueRange operands,
                                      StringRef text, ArrayRef<std::string> constraints) {
  return LLVM::InlineAsmOp::create(
      b, result ? TypeRange(result) : TypeRange(), operands, text, llvm::join(constraints, ","),
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
}

/// `text`, through which every f32 or i32 register passes (an output with a tied
/// input): later uses depend on it.
static SmallVector<Value> emitTied(ImplicitLocOpBuilder &b, StringRef text, ValueRange registers) {
  size_t count = registers.size();
  SmallVector<std::string> constraints;
  for (Type type : registers.getTypes())
    constraints.push_back(type.isF32() ? "=f" : "=r");
  for (size_t index = 0; index < count; ++index)
    constraints.push_back(std::to_string(index));
  SmallVector<Type> types(registers.getTypes());
  // One result is a bare value, several are a struct.
  Type result;
  if (count > 0)
    result = count == 1 ? types[0] : LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  LLVM::InlineAsmOp op = emitAssembly(b, result, registers, text, constraints);
  if (count <= 1)
    return SmallVector<Value>(op->getResults());
  SmallVector<Value> results;
  for (size_t index = 0; index < count; ++index)
    results.push_back(LLVM::ExtractValueOp::create(b, op.getRes(), static_cast<int64_t>(index)));
  return results;
}

/// `nvvm.wgmma.wait.group` takes no registers, so that LLVM is free to move
/// arithmetic on accumulators above it.
SmallVector<Value> mlac::sm90nvvm::emitTiedWgmmaWait(ImplicitLocOpBuilder &b, int64_t pending,
                                                     ValueRange registers) {
  return emitTied(b, ("wgmma.wait_group.sync.aligned " + Twine(pending) + ";").str(), registers);
}

/// No instruction, but a place that registers pass in program order.
SmallVector<Value> mlac::sm90nvvm::emitPin(ImplicitLocOpBuilder &b, ValueRange registers) {
  return emitTied(b, "", registers);
}

Kernel mlac::sm90nvvm::pinThread(ImplicitLocOpBuilder &b, const Kernel &kernel) {
  Kernel pinned = kernel;
  bool isRole = kernel.barrier != 0;
  if (!isRole)
    return pinned;
  Int number(b, emitPin(b, kernel.thread).front());
  pinned.thread = number;
  pinned.groupThread = kernel.warpgroups == 1 ? number : number % sm90::kWarpgroupThreads;
  return pinned;
}

/// To LLVM `nvvm.griddepcontrol wait` touches no memory, so that it moves loads
/// across it: up, where there is nothing to read yet, and scalars down, where they
/// are waited for later than need be.
void mlac::sm90nvvm::emitDependencyWait(ImplicitLocOpBuilder &b) {
  emitAssembly(b, Type(), {}, "griddepcontrol.wait;", {"~{memory}"});
}

/// An arrive with cluster scope (`nvvm.mbarrier.arrive` on a cluster pointer)
/// releases to the whole cluster, for which the assembler puts a GPU-wide memory
/// barrier before each. This form has CTA scope; the consumer's reads are done.
void mlac::sm90nvvm::emitRemoteArrive(ImplicitLocOpBuilder &b, Value barrier, Value rank) {
  emitAssembly(b, Type(), {barrier, rank},
               "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, $0, $1; "
               "mbarrier.arrive.shared::cluster.b64 _, [remote]; }",
               {"r", "r"});
}

/// Fences at cluster scope first, which the form above does not.
void mlac::sm90nvvm::emitRemotePublish(ImplicitLocOpBuilder &b, Value barrier, Value rank) {
  emitAssembly(b, Type(), {barrier, rank},
               "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, $0, $1; "
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }",
               {"r", "r", "~{memory}"});
}

/// nvvm.wgmma.mma_async takes both operands from shared memory; this one has lhs
/// in four registers.
Value mlac::sm90nvvm::emitRegisterWgmma(ImplicitLocOpBuilder &b, const RegisterWgmma &wgmma) {
  auto type = cast<LLVM::LLVMStructType>(wgmma.accumulator.getType());
  size_t count = type.getBody().size(), lhsCount = wgmma.lhs.size();
  SmallVector<std::string> constraints(count, "=f");
  constraints.append(lhsCount, "r");
  constraints.push_back("l");
  SmallVector<Value> operands(wgmma.lhs);
  operands.push_back(wgmma.rhs);
  std::string accumulator, lhs;
  for (size_t index = 0; index < count; ++index) {
    accumulator += (index ? ", $" : "$") + std::to_string(index);
    constraints.push_back(std::to_string(index));
    operands.push_back(
        LLVM::ExtractValueOp::create(b, wgmma.accumulator, static_cast<int64_t>(index)));
  }
  for (size_t index = 0; index < lhsCount; ++index)
    lhs += (index ? ", $" : "$") + std::to_string(count + index);
  std::string text =
      llvm::formatv("wgmma.mma_async.sync.aligned.m64n{0}k16.f32.{1}.{1} {{{2}}, {{{3}}, ${4}, "
                    "{5}, 1, 1, {6};",
                    wgmma.columns, wgmma.isBF16 ? "bf16" : "f16", accumulator, lhs,
                    count + lhsCount, wgmma.overwrite ? 0 : 1, wgmma.isMNMajor ? 1 : 0);
  return emitAssembly(b, type, operands, text, constraints).getRes();
}
