//===- PlanRunner.cpp - runs steps of the mla dialect in a test ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

/// The state of one run: what every value of the plan is.
struct Steps::Frame {
  Frame(const Dims &dims, const Buffers &buffers) : dims(dims), buffers(buffers) {}

  const Dims &dims;
  const Buffers &buffers;
  llvm::DenseMap<mlir::Value, int64_t> values; // integers and addresses
  std::vector<std::vector<char>> workspaces;
};

static mlir::DialectRegistry stepRegistry() {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect,
                  mlir::memref::MemRefDialect, mlir::mla::MlaDialect, mlir::scf::SCFDialect,
                  mlir::tensor::TensorDialect, mlir::tile::TileDialect>();
  return registry;
}

Steps::Steps() : context(stepRegistry(), mlir::MLIRContext::Threading::DISABLED) {}

std::unique_ptr<Steps> Steps::compile(const std::string &text) {
  std::unique_ptr<Steps> steps(new Steps());
  steps->module = mlir::parseSourceString<mlir::ModuleOp>(text, &steps->context);
  mlir::PassManager passes(&steps->context);
  ConvertMlaToTileOptions options;
  options.target = TileTarget::Cpu;
  passes.addPass(createConvertMlaToTile(options));
  if (!steps->module || failed(passes.run(*steps->module))) {
    ADD_FAILURE() << "does not convert:\n" << text;
    return nullptr;
  }
  std::string kernels;
  llvm::raw_string_ostream stream(kernels);
  steps->module->print(stream);
  steps->image = KernelImage::compile(kernels, "x86-64-v3");
  return steps->image ? std::move(steps) : nullptr;
}

void Steps::run(const std::string &name, const Dims &dims, const Buffers &buffers) {
  auto plan = module->lookupSymbol<mlir::tile::PlanOp>(name);
  ASSERT_TRUE(plan) << name;
  Frame frame(dims, buffers);
  runBlock(plan.getBody().front(), frame);
}

void Steps::runBlock(mlir::Block &block, Frame &frame) {
  for (mlir::Operation &op : block.without_terminator())
    runOp(op, frame);
}

/// Evaluates index arithmetic by folding it on constants.
void Steps::runArithmetic(mlir::Operation &op, Frame &frame) {
  mlir::Builder builder(&context);
  llvm::SmallVector<mlir::Attribute> operands;
  for (mlir::Value operand : op.getOperands())
    operands.push_back(builder.getIntegerAttr(operand.getType(), frame.values.at(operand)));
  llvm::SmallVector<mlir::OpFoldResult> results;
  bool isFolded = succeeded(op.fold(operands, results)) && results.size() == 1;
  ASSERT_TRUE(isFolded) << op.getName().getStringRef().str();
  if (auto value = llvm::dyn_cast<mlir::Value>(results[0])) {
    frame.values[op.getResult(0)] = frame.values.at(value);
    return;
  }
  auto folded = llvm::cast<mlir::IntegerAttr>(llvm::cast<mlir::Attribute>(results[0]));
  bool isBool = folded.getType().isInteger(1);
  frame.values[op.getResult(0)] = isBool ? folded.getValue().getZExtValue() : folded.getInt();
}

void Steps::launch(mlir::tile::LaunchOp op, Frame &frame) {
  std::vector<Argument> arguments;
  for (mlir::Value argument : op.getArgs())
    arguments.emplace_back(frame.values.at(argument));
  image->launch(op.getKernel().str(), arguments,
                {frame.values.at(op.getGridX()), frame.values.at(op.getGridY()),
                 frame.values.at(op.getGridZ())});
}

void Steps::runOp(mlir::Operation &op, Frame &frame) {
  if (auto dim = llvm::dyn_cast<mlir::tile::DimOp>(op)) {
    ASSERT_TRUE(frame.dims.count(dim.getName().str())) << dim.getName().str();
    frame.values[dim] = frame.dims.at(dim.getName().str());
  } else if (auto buffer = llvm::dyn_cast<mlir::tile::BufferOp>(op)) {
    ASSERT_TRUE(frame.buffers.count(buffer.getName().str())) << buffer.getName().str();
    frame.values[buffer] = frame.buffers.at(buffer.getName().str()).bits;
  } else if (auto workspace = llvm::dyn_cast<mlir::tile::WorkspaceOp>(op)) {
    constexpr int64_t bytesPerElement = 4, alignment = 64;
    int64_t elements = frame.values.at(workspace.getElements());
    frame.workspaces.emplace_back(elements * bytesPerElement + alignment, char(0xff));
    auto address = reinterpret_cast<uint64_t>(frame.workspaces.back().data());
    frame.values[workspace] = (address + alignment - 1) / alignment * alignment;
  } else if (auto branch = llvm::dyn_cast<mlir::scf::IfOp>(op)) {
    if (frame.values.at(branch.getCondition()))
      runBlock(*branch.thenBlock(), frame);
    else if (branch.elseBlock())
      runBlock(*branch.elseBlock(), frame);
  } else if (auto loop = llvm::dyn_cast<mlir::scf::ForOp>(op)) {
    for (int64_t i = 0, end = frame.values.at(loop.getUpperBound()); i < end; ++i) {
      frame.values[loop.getInductionVar()] = i;
      runBlock(*loop.getBody(), frame);
    }
  } else if (auto launchOp = llvm::dyn_cast<mlir::tile::LaunchOp>(op)) {
    launch(launchOp, frame);
  } else {
    runArithmetic(op, frame);
  }
}
