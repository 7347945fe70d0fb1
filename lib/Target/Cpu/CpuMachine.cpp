//===- CpuMachine.cpp - processors that code is generated for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Cpu/CompileKernels.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlac;

static constexpr llvm::StringLiteral kLevel3 = "x86-64-v3", kLevel4 = "x86-64-v4";

// f32 elements of a ymm and of a zmm register.
static constexpr int64_t kLanes3 = 8, kLanes4 = 16;

static CpuMachine level3() { return {kLevel3.str(), kLevel3.str(), {}, kLanes3}; }
static CpuMachine level4() { return {kLevel4.str(), kLevel4.str(), {}, kLanes4}; }

/// What the levels add (x86-64 psABI, section "Low Level System Information").
static constexpr llvm::StringLiteral kLevel3Features[] = {"avx2", "bmi2",  "f16c",
                                                          "fma",  "lzcnt", "movbe"};
static constexpr llvm::StringLiteral kLevel4Features[] = {"avx512bw", "avx512cd", "avx512dq",
                                                          "avx512f", "avx512vl"};

static mlir::FailureOr<CpuMachine> resolveNative(std::string &error) {
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  auto supports = [&](llvm::StringRef feature) { return host.lookup(feature); };
  if (const auto *missing = llvm::find_if_not(kLevel3Features, supports);
      missing != std::end(kLevel3Features)) {
    error = (llvm::Twine("expected a processor with ") + kLevel3 + ", this one lacks " + *missing)
                .str();
    return mlir::failure();
  }
  bool isLevel4 = llvm::all_of(kLevel4Features, supports);
  CpuMachine machine = isLevel4 ? level4() : level3();
  machine.tune = llvm::sys::getHostCPUName().str();
  // Only vector extensions can matter for kernels, and what is not listed here
  // need not be there where the image runs.
  for (const auto &feature : host) {
    bool isIncluded = llvm::is_contained(kLevel3Features, feature.getKey()) ||
                      llvm::is_contained(kLevel4Features, feature.getKey()) ||
                      feature.getKey() == "avx";
    bool isUsable = feature.getKey().starts_with("avx") &&
                    (isLevel4 || !feature.getKey().starts_with("avx512")) &&
                    !feature.getKey().starts_with("avx10");
    if (feature.getValue() && isUsable && !isIncluded)
      machine.features.push_back(feature.getKey().str());
  }
  llvm::sort(machine.features);
  return machine;
}

mlir::FailureOr<CpuMachine> mlac::resolveCpu(llvm::StringRef name, std::string &error) {
  if (name == kLevel3)
    return level3();
  if (name == kLevel4)
    return level4();
  if (name == "native")
    return resolveNative(error);
  error = (llvm::Twine("unknown CPU '") + name + "', expected one of: " + kLevel3 + ", " + kLevel4 +
           ", native")
              .str();
  return mlir::failure();
}
