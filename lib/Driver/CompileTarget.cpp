//===- CompileTarget.cpp - the registry of targets ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/CompileTarget.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlac;

std::vector<const CompileTarget *> mlac::getCompileTargets() {
  return {
#define MLAC_TARGET(name, option, chip, isScheduled, summary) &get##name##Target(),
#include "mla/Machine/Targets.def"
  };
}

const CompileTarget *mlac::findCompileTarget(llvm::StringRef name) {
  for (const CompileTarget *target : getCompileTargets())
    if (target->info.chip == name)
      return target;
  return nullptr;
}

const CompileLevel *CompileTarget::findLevel(llvm::StringRef name) const {
  llvm::ArrayRef<CompileLevel> levels = getLevels();
  const auto *level =
      llvm::find_if(levels, [&](const CompileLevel &each) { return each.name == name; });
  return level == levels.end() ? nullptr : level;
}

std::string mlac::joinNames(llvm::ArrayRef<std::string> names, llvm::StringRef last) {
  if (names.size() < 2)
    return names.empty() ? "none" : names.front();
  return llvm::join(names.drop_back(), ", ") + last.str() + names.back();
}

std::string mlac::listTargets(llvm::StringRef last,
                              llvm::function_ref<bool(const CompileTarget &)> takes) {
  std::vector<std::string> names;
  for (const CompileTarget *target : getCompileTargets())
    if (takes(*target))
      names.push_back(target->getName());
  return joinNames(names, last);
}

std::vector<std::string> mlac::listLevels() {
  // The longest way first, so that what others share stands where it comes on the way.
  std::vector<const CompileTarget *> targets = getCompileTargets();
  llvm::stable_sort(targets, [](const CompileTarget *a, const CompileTarget *b) {
    return a->getLevels().size() > b->getLevels().size();
  });
  std::vector<std::string> names = {"mla", "tile"};
  for (const CompileTarget *target : targets)
    for (const CompileLevel &level : target->getLevels())
      if (!llvm::is_contained(names, level.name))
        names.push_back(level.name.str());
  names.push_back("package");
  return names;
}
