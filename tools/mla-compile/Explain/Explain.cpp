//===- Explain.cpp - a page about what was compiled ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/Explain.h"

#include "Explain/Sections.h"
#include "report/Plot.h"

#include "mla/Driver/CompileTarget.h"

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlac;
using llvm::Error;
using llvm::Expected;
using runtime::CacheLayout;
using runtime::CacheShape;

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

static std::string bytesText(double bytes) { return report::format(bytes, 6) + " B"; }

/// Formats that keep rows of the same widths, without pages of their own.
static void addFormats(const runtime::PoolInfo &pool, std::vector<report::Bar> &bars) {
  for (const cache::Format &format : cache::kFormats) {
    CacheShape shape = pool.layout.shape();
    shape.pageStride = 0;
    CacheLayout layout;
    if (format.name == pool.layout.format().name ||
        !CacheLayout::make(format.name, shape, layout).isOk())
      continue;
    auto bytes = static_cast<double>(layout.tokenBytes());
    bars.push_back({std::string(format.name), bytes, 4, bytesText(bytes)});
  }
}

void mlac::explainCache(report::Page &page, const runtime::Package &package) {
  const package::Model &model = package.model();
  std::vector<report::Bar> bars;
  for (const runtime::PoolInfo &pool : package.pools()) {
    double bytes = static_cast<double>(pool.rowBytes()) / static_cast<double>(pool.tokensPerRow);
    bars.push_back(
        {"this package: " + pool.name + " (" + std::string(pool.layout.format().name) + ")", bytes,
         0, bytesText(bytes)});
  }
  addFormats(package.pools()[0], bars);
  double elementBytes =
      static_cast<double>(runtime::elementBytes(package.pools()[0].layout.shape().dtype));
  double width = model.qk_nope_head_dim() + model.qk_rope_head_dim() + model.v_head_dim();
  double heads = static_cast<double>(model.num_heads()) * model.tensor_parallel();
  if (width > 0) {
    bars.push_back(
        {"keys and values of one head", width * elementBytes, 1, bytesText(width * elementBytes)});
    bars.push_back({"keys and values of all " + report::format(heads, 6) + " heads",
                    heads * width * elementBytes, 1, bytesText(heads * width * elementBytes)});
  }
  page.section("Cache");
  page.figure(report::drawBars(bars),
              "Bytes of a token in one layer's cache, on each rank: latents are not divided over "
              "ranks, heads would be.");
}

//===----------------------------------------------------------------------===//
// Page
//===----------------------------------------------------------------------===//

static void addSummary(report::Page &page, const runtime::Package &package) {
  const package::Package &root = package.root();
  const package::Model &model = package.model();
  auto number = [](auto value) { return std::to_string(value); };
  report::Table table;
  table.textColumns = 2;
  table.header = {"", ""};
  table.rows = {{"compiled by", std::string(runtime::text(root.compiler()))},
                {"options", std::string(runtime::text(root.options()))},
                {"model", std::string(runtime::text(model.model_type()))},
                {"hidden size, heads of a rank, ranks", number(model.hidden_size()) + ", " +
                                                            number(model.num_heads()) + ", " +
                                                            number(model.tensor_parallel())},
                {"ranks of queries and latents",
                 number(model.q_lora_rank()) + ", " + number(model.kv_lora_rank())},
                {"columns of a head: nope, rope, value", number(model.qk_nope_head_dim()) + ", " +
                                                             number(model.qk_rope_head_dim()) +
                                                             ", " + number(model.v_head_dim())},
                {"package", report::formatScaled(static_cast<double>(package.fileBytes())) + "B"}};
  page.table(table);
}

static bool computesInF32(const runtime::Package &package) {
  return package.model().activation_dtype() == package::DataType::F32;
}

static Error addTarget(report::Page &page, mlir::ModuleOp module, const CompileOptions &options,
                       const runtime::Package &package, llvm::ArrayRef<uint8_t> bytes,
                       size_t index) {
  const std::string &name = options.targets[index];
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> tileModule =
      lowerToTile(module, name, options);
  if (mlir::failed(tileModule))
    return llvm::createStringError("the module was not lowered again");
  TargetDescription machine = getMachineOf(name);
  if (computesInF32(package))
    machine.matmulTflops = machine.f32Tflops;
  Explained explained{module, **tileModule, options, package, bytes, index, name, machine};
  page.section("Target " + name);
  page.paragraph("Planned for machine '" + machine.name.str() +
                 "': " + report::format(machine.matmulTflops) + " TFLOP/s, reads " +
                 report::format(machine.readGbps, 4) + " GB/s, " + std::to_string(machine.numSms) +
                 " multiprocessors or threads, " + report::format(machine.launchMicroseconds) +
                 " us for a launch. These rates were measured once; times below are predictions.");
  explainForms(page, explained);
  if (Error error = explainSteps(page, explained))
    return error;
  return findCompileTarget(name)->info.isScheduled ? explainKernels(page, explained)
                                                   : Error::success();
}

Expected<std::string> mlac::explain(mlir::ModuleOp module, const CompileOptions &options,
                                    llvm::ArrayRef<uint8_t> bytes) {
  std::shared_ptr<runtime::Package> package;
  if (runtime::Status status = runtime::Package::open(bytes.data(), bytes.size(), package);
      !status.isOk())
    return llvm::createStringError(status.message());
  report::Page page("mla-compile: " + std::string(runtime::text(package->model().model_type())));
  addSummary(page, *package);
  explainCache(page, *package);
  CompileOptions quiet = options;
  quiet.costReport = nullptr;
  for (size_t target = 0; target < options.targets.size(); ++target)
    if (Error error = addTarget(page, module, quiet, *package, bytes, target))
      return std::move(error);
  return page.finish();
}
