//===- StandardStreams.cpp - output that nobody can take ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mains.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

static const char *program;

/// Before LLVM's streams end, which would abort.
static void endStreams() {
  llvm::raw_fd_ostream &out = llvm::outs();
  llvm::raw_fd_ostream &err = static_cast<llvm::raw_fd_ostream &>(llvm::errs());
  out.flush();
  std::error_code code = out.error();
  out.clear_error();
  if (code)
    err << program << ": error: cannot write to standard output: " << code.message() << "\n";
  // Messages that nobody wants to see make no result wrong.
  err.clear_error();
  if (code)
    std::_Exit(EXIT_FAILURE);
}

void mlac::watchStandardStreams(const char *name) {
  program = name;
  (void)llvm::outs(); // ends after what is registered behind it
  (void)llvm::errs();
  std::atexit(endStreams);
}
