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

using namespace mlir;
using namespace mlac::sm90nvvm;

/// `nvvm.wgmma.wait.group` takes no registers, so that LLVM is free to move
/// arithmetic on accumulators above it. Here every register goes in and comes
/// out ("=f" with a tied input): later uses depend on the wait.
SmallVector<Value> mlac::sm90nvvm::emitTiedWgmmaWait(ImplicitLocOpBuilder &b, int64_t pending,
                                                     ValueRange registers) {
  std::string text = ("wgmma.wait_group.sync.aligned " + Twine(pending) + ";").str();
  size_t count = registers.size();
  SmallVector<std::string> constraints(count, "=f");
  for (size_t index = 0; index < count; ++index)
    constraints.push_back(std::to_string(index));
  SmallVector<Type> types(registers.getTypes());
  // One result is a bare value, several are a struct.
  Type result;
  if (count > 0)
    result = count == 1 ? types[0] : LLVM::LLVMStructType::getLiteral(b.getContext(), types);
  auto op = LLVM::InlineAsmOp::create(
      b, result ? TypeRange(result) : TypeRange(), registers, text, llvm::join(constraints, ","),
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  if (count <= 1)
    return SmallVector<Value>(op->getResults());
  SmallVector<Value> results;
  for (size_t index = 0; index < count; ++index)
    results.push_back(LLVM::ExtractValueOp::create(b, op.getRes(), static_cast<int64_t>(index)));
  return results;
}
