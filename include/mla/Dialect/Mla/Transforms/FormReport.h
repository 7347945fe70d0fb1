//===- FormReport.h - what the forms of an attention cost ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_TRANSFORMS_FORMREPORT_H
#define MLA_DIALECT_MLA_TRANSFORMS_FORMREPORT_H

#include "mla/Analysis/FormCost.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {

/// One request of the layer around `attention` for each pair of lengths that a report shows.
llvm::SmallVector<mlac::FormProblem> listReportPoints(AttentionOp attention);

/// Prints FLOPs, bytes and predicted time of every form of an attention of `module`, as
/// mla-choose-form{report} does.
void printFormReport(llvm::raw_ostream &os, AttentionOp attention, ModuleOp module);

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_TRANSFORMS_FORMREPORT_H
