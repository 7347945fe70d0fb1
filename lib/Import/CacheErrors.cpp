//===- CacheErrors.cpp - pools that are refused ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CacheErrors.h"

using namespace mlac;
using namespace mlir;

InFlightDiagnostic mlac::emitCacheError(Location loc, VerifyCache verifyPlain) {
  auto discard = [&] {
    InFlightDiagnostic error = emitError(loc);
    error.abandon();
    return error;
  };
  InFlightDiagnostic error = emitError(loc);
  if (succeeded(verifyPlain(discard)))
    error.attachNote() << "--cache-format=auto, rows of the activations' type, takes this model";
  return error;
}
