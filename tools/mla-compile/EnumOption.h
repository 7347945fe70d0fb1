//===- EnumOption.h - options of named values ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_ENUMOPTION_H
#define MLA_COMPILE_ENUMOPTION_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"

namespace mlac {

/// Says which values there are where another is given.
template <typename T> struct ListingParser : llvm::cl::parser<T> {
  using llvm::cl::parser<T>::parser;
  bool parse(llvm::cl::Option &option, llvm::StringRef name, llvm::StringRef text, T &value) {
    llvm::SmallVector<llvm::StringRef> names;
    for (unsigned i = 0; i < this->getNumOptions(); ++i)
      names.push_back(this->getOption(i));
    if (llvm::is_contained(names, text))
      return llvm::cl::parser<T>::parse(option, name, text, value);
    llvm::erase(names, ""); // of an option that stands alone, too
    return option.error("expected one of " + llvm::Twine(llvm::join(names, ", ")) + ", got '" +
                        text + "'");
  }
};
template <typename T>
using EnumOption = llvm::cl::opt<T, /*ExternalStorage=*/false, ListingParser<T>>;

} // namespace mlac

#endif // MLA_COMPILE_ENUMOPTION_H
