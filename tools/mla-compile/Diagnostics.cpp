//===- Diagnostics.cpp - how mla-compile says what is wrong ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Diagnostics.h"

#include "mla/Import/InputFile.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;
using llvm::StringRef;

/// Longer lines are no text that somebody wrote.
static constexpr size_t kLongestLine = 200;

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext &context, llvm::raw_ostream *remarks)
    : remarks(remarks), handler(&context, [this](mlir::Diagnostic &diagnostic) {
        print(diagnostic);
        for (mlir::Diagnostic &note : diagnostic.getNotes())
          print(note);
        return mlir::success();
      }) {}

/// Empty where it is not fit to be shown.
StringRef DiagnosticPrinter::getLine(StringRef path, unsigned line) {
  auto [entry, isNew] = files.try_emplace(path.str());
  if (isNew) {
    if (auto file = readInputFile(path))
      entry->second = std::move(*file);
    else
      llvm::consumeError(file.takeError());
  }
  StringRef rest = entry->second ? entry->second->getBuffer() : StringRef();
  for (unsigned i = 1; i < line; ++i)
    rest = rest.split('\n').second;
  StringRef text = rest.take_front(kLongestLine + 1).split('\n').first.rtrim();
  bool isText = text.size() <= kLongestLine &&
                llvm::all_of(text, [](char c) { return llvm::isPrint(c) || c == '\t'; });
  // A brace says nothing that the place does not.
  return isText && text.trim().size() > 1 ? text : StringRef();
}

static llvm::raw_ostream &beginMessage(mlir::DiagnosticSeverity severity) {
  switch (severity) {
  case mlir::DiagnosticSeverity::Error:
    return llvm::WithColor::error();
  case mlir::DiagnosticSeverity::Warning:
    return llvm::WithColor::warning();
  case mlir::DiagnosticSeverity::Note:
    return llvm::WithColor::note();
  case mlir::DiagnosticSeverity::Remark:
    return llvm::WithColor::remark();
  }
  llvm_unreachable("all severities are listed");
}

void DiagnosticPrinter::print(const mlir::Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark) {
    if (remarks)
      *remarks << diagnostic << "\n";
    return;
  }
  auto place = diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>();
  if (place)
    llvm::errs() << place.getFilename().getValue() << ":" << place.getLine() << ":"
                 << place.getColumn() << ": ";
  beginMessage(diagnostic.getSeverity()) << diagnostic << "\n";
  StringRef line = place ? getLine(place.getFilename(), place.getLine()) : StringRef();
  if (line.empty())
    return;
  // Tabs keep their width in front of the mark.
  unsigned before = std::min<size_t>(std::max(1u, place.getColumn()) - 1, line.size());
  llvm::errs() << line << "\n";
  for (char c : line.take_front(before))
    llvm::errs() << (c == '\t' ? '\t' : ' ');
  llvm::errs() << "^\n";
}
