//===- Sections.h - the parts of the page ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_EXPLAIN_SECTIONS_H
#define MLA_COMPILE_EXPLAIN_SECTIONS_H

#include "package/Package.h"
#include "report/Html.h"

#include "mla/Driver/Compile.h"
#include "mla/Machine/TargetDescription.h"

namespace mlac {

/// What sections are about: one target of a package.
struct Explained {
  mlir::ModuleOp module;     // as it was loaded
  mlir::ModuleOp tileModule; // of the target, with its schedules
  const CompileOptions &options;
  const runtime::Package &package;
  llvm::ArrayRef<uint8_t> bytes; // of the package
  size_t target;                 // in it
  std::string name;              // of the target
  TargetDescription machine;     // that it is planned for, with the rates of its element type
};

/// Bytes of a token in the cache, beside what other formats and plain heads would take.
void explainCache(report::Page &page, const runtime::Package &package);
/// What the forms of the attention cost, and where they cross.
void explainForms(report::Page &page, const Explained &explained);
/// Every launch of some steps, counted, on the machine's roofline.
llvm::Error explainSteps(report::Page &page, const Explained &explained);
/// Of scheduled targets: why each attention kernel has its schedule, what its roles do when, and
/// what lies where in shared memory and registers.
llvm::Error explainKernels(report::Page &page, const Explained &explained);

} // namespace mlac

#endif // MLA_COMPILE_EXPLAIN_SECTIONS_H
