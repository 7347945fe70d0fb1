//===- mla-opt.cpp - runs passes over mlac's IR ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mains.h"

#include "mla/Import/InputFile.h"
#include "mla/RegisterAll.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/WithColor.h"

int mlac::optMain(int argc, char **argv) {
  watchStandardStreams("mla-opt");
  forgetForeignOptions();
  mlir::DialectRegistry registry;
  mlac::registerAllDialects(registry);
  mlac::registerAllPasses();
  auto [input, output] =
      mlir::registerAndParseCLIOptions(argc, argv, "mlac optimiser driver\n", registry);
  // A missing file is the driver's own error.
  if (input != "-" && llvm::sys::fs::exists(input))
    if (llvm::Error error = mlac::checkInputFile(input)) {
      llvm::WithColor::error(llvm::errs(), "mla-opt")
          << "cannot read '" << input << "': " << llvm::toString(std::move(error)) << "\n";
      return EXIT_FAILURE;
    }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
