//===- PlanRun.cpp - the launches of a plan, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanRun.h"

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

bool PlanRun::evaluate(Block &block) {
  for (Operation &op : block) {
    bool isKnown =
        llvm::TypeSwitch<Operation *, bool>(&op)
            .Case([&](tile::DimOp dim) {
              auto known = dims.find(dim.getName().str());
              values[dim.getResult()] = {"", known == dims.end() ? 0 : known->second};
              return known != dims.end();
            })
            .Case([&](tile::BufferOp buffer) {
              values[buffer.getResult()] = {buffer.getName().str()};
              return buffers.count(buffer.getName().str()) > 0;
            })
            .Case([&](tile::WorkspaceOp workspace) {
              std::string name = "workspace" + std::to_string(values.size());
              int64_t elements = std::max<int64_t>(values[workspace.getElements()].number, 1);
              Type element = workspace.getType().getElementType();
              if (element.isF32())
                buffers[name] = std::vector<float>(elements, NAN);
              else if (element.isInteger(32))
                buffers[name] = std::vector<int32_t>(elements, 0x7FFFFFF0);
              else
                buffers[name] = Bits(elements, kNaN);
              values[workspace.getResult()] = {name};
              return true;
            })
            .Case([&](tile::LaunchOp launch) {
              Launch entry{launch.getKernel().str(), {}, {}};
              entry.grid = {values[launch.getGridX()].number, values[launch.getGridY()].number,
                            values[launch.getGridZ()].number};
              for (Value argument : launch.getArgs())
                entry.bindings.push_back(values[argument]);
              if (!llvm::is_contained(entry.grid, 0))
                launches.push_back(entry);
              return true;
            })
            .Case([&](scf::IfOp branch) {
              Region &taken = values[branch.getCondition()].number ? branch.getThenRegion()
                                                                   : branch.getElseRegion();
              return branch.getNumResults() == 0 && (taken.empty() || evaluate(taken.front()));
            })
            .Case([&](tile::PromptsOp prompts) {
              doPromptsPay = values[prompts.getPays()].number != 0;
              return true;
            })
            .Case<tile::WorkOp, tile::ReturnOp, scf::YieldOp>([](Operation *) { return true; })
            .Default([&](Operation *) {
              SmallVector<Attribute> operands;
              for (Value operand : op.getOperands())
                operands.push_back(Builder(op.getContext())
                                       .getIntegerAttr(operand.getType(), values[operand].number));
              SmallVector<OpFoldResult> results;
              if (failed(op.fold(operands, results)) || results.size() != 1)
                return false;
              if (auto operand = dyn_cast<Value>(results[0]))
                values[op.getResult(0)] = values[operand];
              else
                values[op.getResult(0)] = {"",
                                           cast<IntegerAttr>(cast<Attribute>(results[0])).getInt()};
              return true;
            });
    if (!isKnown) {
      op.emitError("not known to the test");
      return false;
    }
  }
  return true;
}

std::optional<simulator::Finding> PlanRun::run(ModuleOp module, Buffers &data,
                                               uint64_t seed) const {
  simulator::Options options;
  options.seed = seed;
  options.maxSteps = 1 << 22;
  for (const Launch &launch : launches) {
    auto kernel = module.lookupSymbol<sm90::KernelOp>(launch.kernel);
    std::vector<simulator::Argument> arguments;
    for (const Binding &binding : launch.bindings)
      arguments.push_back(
          binding.buffer.empty()
              ? simulator::Argument::index(binding.number)
              : std::visit([](auto &value) { return toArgument(value); }, data.at(binding.buffer)));
    options.grid = launch.grid;
    if (auto finding = simulator::simulate(kernel, arguments, options))
      return finding;
  }
  return std::nullopt;
}
