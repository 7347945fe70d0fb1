//===- CheckModule.cpp - whether options suit what was loaded ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What was asked for and would not be done is an error, before anything is compiled.
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Progress.h"
#include "ScheduleOptions.h"

#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlac;
using mlir::mla::Form;

/// Whether all caches of latents have rows of --row-width, if that is given. Those of an indexer's
/// keys and of compressors lie beside them.
static bool checkRowWidth(mlir::ModuleOp module, int64_t rowWidth) {
  bool hasLatents = rowWidth == 0;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (mlir::Type type : function.getArgumentTypes()) {
      auto cache = llvm::dyn_cast<mlir::mla::CacheType>(type);
      if (rowWidth == 0 || !cache || cache.getKvLoraRank() == 0)
        continue;
      hasLatents = true;
      if (cache.getRowWidth() != rowWidth)
        return fail("--row-width: expected cache rows of " + llvm::Twine(rowWidth) +
                    " elements, got " + llvm::Twine(cache.getKvLoraRank()) + " + " +
                    llvm::Twine(cache.getQkRopeHeadDim()));
    }
  return hasLatents ||
         fail("--row-width is for caches of latents: the model's have keys and values");
}

/// Whether scales are written as --scale-rule says, if that is given. Those of an indexer's keys
/// have a rule of their own.
static bool checkScaleRule(mlir::ModuleOp module, std::optional<mlir::mla::ScaleRule> rule) {
  for (auto function : module.getOps<mlir::func::FuncOp>())
    for (mlir::Type type : function.getArgumentTypes()) {
      auto cache = llvm::dyn_cast<mlir::mla::CacheType>(type);
      if (!rule || !cache || cache.getKvLoraRank() == 0 || cache.getScaleRule() == *rule)
        continue;
      return fail("--scale-rule=" + stringifyScaleRule(*rule) +
                  " does not apply: scales of cache format " + cache.getFormat() + " are always " +
                  stringifyScaleRule(cache.getScaleRule()));
    }
  return true;
}

namespace {
/// What options steer.
struct Attentions {
  explicit Attentions(mlir::ModuleOp module, Form form) {
    module.walk([&](mlir::mla::AttentionOp attention) {
      bool isOpen = attention.getForm() == Form::Auto;
      fitForm |= isOpen || attention.getForm() == form;
      (attention.getSelected() ? selecting : seeingAll) = true;
      bool isAbsorbed = (isOpen ? form : attention.getForm()) != Form::Expanded;
      absorbed |= attention.getSelected() || isAbsorbed;
      overPages |= !attention.getSelected() && isAbsorbed;
    });
    module.walk([&](mlir::mla::SparseAttentionOp) { overLists = true; });
    module.walk([&](mlir::mla::GroupedAttentionOp) { overPages = true; });
  }
  bool selecting = false, seeingAll = false, overLists = false, fitForm = false, absorbed = false;
  bool overPages = false; ///< of whole requests, which are cut by what pieces cost
};
} // namespace

/// Whether --form has an attention to decide about; auto decides nothing.
static bool checkForm(const Attentions &attentions, Form form) {
  if (form == Form::Auto || attentions.fitForm)
    return true;
  if (attentions.selecting && !attentions.seeingAll)
    return fail("--form: selected keys are attended to in one form, which is absorbed");
  return fail("--form: no attention of the module leaves its form open");
}

/// Whether options that steer an attention have one. What is automatic may come to nothing.
static bool checkUses(const Attentions &attentions, const CompileOptions &options) {
  constexpr llvm::StringLiteral kLatents = "latents whose form is open",
                                kSelected = "selected keys",
                                kAbsorbed = "latents to attend to in the absorbed form",
                                kPages = "pages of a cache whose requests are cut by cost";
  using mlir::mla::AbsorbMode;
  bool isFolded = options.absorb != AbsorbMode::Online && options.absorb != AbsorbMode::Auto;
  struct Use {
    llvm::StringLiteral option;
    bool isGiven, isUsed;
    llvm::StringLiteral what;
  };
  for (const Use &use :
       {Use{"absorb", isFolded, attentions.seeingAll || attentions.selecting, kLatents},
        Use{"absorb", isFolded, attentions.absorbed, kAbsorbed},
        Use{"item-cost", options.itemCost >= 0, attentions.overPages, kPages},
        Use{"merge-cost", options.mergeCost >= 0, attentions.overPages, kPages},
        Use{"partial-cost", options.partialCost >= 0, attentions.overPages, kPages},
        Use{"absorbed=codes", options.requantisesAbsorbed, attentions.absorbed, kAbsorbed},
        Use{"mixed", options.mixed == mlir::mla::SharePrefixMode::Always, attentions.seeingAll,
            kLatents},
        Use{"cost-report", options.costReport != nullptr,
            attentions.seeingAll || attentions.selecting, kLatents},
        Use{"select-always", options.selectAlways, attentions.selecting, kSelected},
        Use{"mask-selection", options.maskSelection == mlir::mla::MaskMode::Always,
            attentions.selecting, kSelected},
        Use{"expand-from", options.expandFrom != 0, attentions.seeingAll, kLatents},
        Use{"sparse-mode", options.sparseMode == mlir::mla::SparseMode::Separate,
            attentions.selecting || attentions.overLists, kSelected}})
    if (use.isGiven && !use.isUsed)
      return fail("--" + use.option + " does not apply: no attention of the model has " + use.what);
  return true;
}

/// Whether --schedule-report has a target whose kernels are scheduled.
static bool checkScheduleReport(const Invocation &invocation) {
  const std::vector<std::string> &targets = invocation.options.targets;
  auto isOfSchedules = [](const std::string &name) {
    return isScheduled(*findCompileTarget(name));
  };
  return !invocation.wantsScheduleReport || llvm::any_of(targets, isOfSchedules) ||
         fail("--schedule-report is for " + listTargets(" and ", isScheduled) + ", the target is " +
              llvm::join(targets, ","));
}

bool mlac::checkModule(mlir::ModuleOp module, const Invocation &invocation) {
  const CompileOptions &options = invocation.options;
  Attentions attentions(module, options.import.form);
  return checkScheduleReport(invocation) && checkRowWidth(module, invocation.rowWidth) &&
         checkScaleRule(module, invocation.scaleRule) &&
         checkForm(attentions, options.import.form) && checkUses(attentions, options);
}
