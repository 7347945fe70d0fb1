//===- FormReport.h - what each form costs, as text ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Apart from FormCost.h because a report also says what fusing the up-projection
// would take (UpProjectionCost.h), and that is counted with what FormCost.h counts.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_FORMREPORT_H
#define MLA_ANALYSIS_FORMREPORT_H

#include "mla/Analysis/FormCost.h"

#include "llvm/Support/raw_ostream.h"

namespace mlac {

/// Prints, for each point, a table with FLOPs, bytes and predicted time of
/// every variant, and the crossover.
void printFormReport(llvm::raw_ostream &os, const TargetDescription &target,
                     llvm::ArrayRef<FormProblem> points);

} // namespace mlac

#endif // MLA_ANALYSIS_FORMREPORT_H
