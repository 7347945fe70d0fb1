//===- SimulatePass.cpp - the simulator as a pass ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Value.h"

#include "mla/Simulator/Passes.h"
#include "mla/Simulator/Simulator.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <random>

namespace mlac::simulator {
#define GEN_PASS_DEF_SM90SIMULATE
#include "mla/Simulator/Passes.h.inc"
} // namespace mlac::simulator

using namespace mlac::simulator;
using namespace mlir;

namespace {
using Buffer = std::vector<char>;

struct Simulate : mlac::simulator::impl::Sm90SimulateBase<Simulate> {
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult makeArgument(Type type, StringRef text, unsigned index, Buffer &buffer,
                             Argument &argument);
  LogicalResult fillBuffer(StringRef content, Type elementType, unsigned index, Buffer &buffer);
  void report(ArrayRef<Buffer> buffers);
};
} // namespace

static void writeElement(char *data, Type type, double value) {
  if (isa<FloatType>(type))
    return writeReal(data, type, value);
  int64_t integer = value;
  memcpy(data, &integer, getElementBytes(type));
}

LogicalResult Simulate::fillBuffer(StringRef content, Type elementType, unsigned index,
                                   Buffer &buffer) {
  int64_t elementBytes = getElementBytes(elementType);
  SmallVector<double> list;
  SmallVector<StringRef> parts;
  content.split(parts, '/');
  for (StringRef part : parts) {
    double value;
    if (!part.getAsDouble(value))
      list.push_back(value);
  }
  bool isKnown = content == "random" || content == "nan" || content == "zero" || content == "iota";
  if (!isKnown && list.size() != parts.size())
    return getOperation().emitError("unknown content of a buffer: ") << content;
  std::mt19937 random(index + 1);
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (size_t element = 0; element < buffer.size() / elementBytes; ++element) {
    double value = content == "random" ? distribution(random)
                   : content == "nan"  ? NAN
                   : content == "zero" ? 0
                   : content == "iota" ? double(element)
                                       : list[element % list.size()];
    writeElement(&buffer[element * elementBytes], elementType, value);
  }
  return success();
}

LogicalResult Simulate::makeArgument(Type type, StringRef text, unsigned index, Buffer &buffer,
                                     Argument &argument) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref) {
    double number;
    if (text.getAsDouble(number))
      return getOperation().emitError("expected a number for argument ")
             << index << ", got " << text;
    argument = type.isF32() ? Argument::f32(number) : Argument::index(number);
    return success();
  }
  auto [content, count] = text.rsplit(':');
  int64_t elements;
  if (count.getAsInteger(10, elements) || elements <= 0)
    return getOperation().emitError("expected CONTENT:COUNT for argument ")
           << index << ", got " << text;
  buffer.resize(elements * getElementBytes(memref.getElementType()));
  argument = {buffer.data(), buffer.size()};
  return fillBuffer(content, memref.getElementType(), index, buffer);
}

void Simulate::report(ArrayRef<Buffer> buffers) {
  for (auto [index, type] : llvm::enumerate(getOperation().getArgumentTypes())) {
    if (buffers[index].empty())
      continue;
    Type elementType = cast<MemRefType>(type).getElementType();
    int64_t elementBytes = getElementBytes(elementType);
    std::string text;
    llvm::raw_string_ostream stream(text);
    size_t count = std::min<size_t>(print, buffers[index].size() / elementBytes);
    for (size_t element = 0; element < count; ++element) {
      const char *data = &buffers[index][element * elementBytes];
      int64_t integer = 0;
      memcpy(&integer, data, elementBytes);
      if (isa<FloatType>(elementType))
        stream << " " << llvm::format("%g", readReal(data, elementType));
      else
        stream << " " << llvm::SignExtend64(integer, 8 * elementBytes);
    }
    emitRemark(getOperation().getLoc()) << "argument " << index << ":" << text;
  }
}

void Simulate::runOnOperation() {
  sm90::KernelOp kernel = getOperation();
  if (args.size() != kernel.getArgumentTypes().size()) {
    kernel.emitError("has ") << kernel.getArgumentTypes().size() << " arguments, the option args "
                             << args.size();
    return signalPassFailure();
  }
  Options options;
  for (auto [index, extent] : llvm::enumerate(grid))
    if (index < options.grid.size())
      options.grid[index] = extent;
  std::vector<Buffer> first;
  for (options.seed = seed; options.seed < seed + seeds; ++options.seed) {
    std::vector<Buffer> buffers(args.size());
    std::vector<Argument> arguments(args.size());
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes()))
      if (failed(makeArgument(type, args[index], index, buffers[index], arguments[index])))
        return signalPassFailure();
    if (std::optional<Finding> finding = simulate(kernel, arguments, options)) {
      finding->text += " (seed " + std::to_string(options.seed) + ")";
      finding->emit();
      return signalPassFailure();
    }
    if (first.empty())
      first = std::move(buffers);
    else if (first != buffers) {
      emitError(kernel.getLoc()) << "gives another result with seed " << options.seed
                                 << " than with seed " << seed;
      return signalPassFailure();
    }
  }
  if (print > 0)
    report(first);
  markAllAnalysesPreserved();
}
