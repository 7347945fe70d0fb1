//===- Simulate.cpp - one kernel of a package in the simulator ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulate.h"

#include "PackagedKernel.h"

#include "device/Device.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Driver/CompileTarget.h"
#include "mla/Machine/TargetDescription.h"
#include "mla/Simulator/Mutations.h"
#include "mla/Simulator/Simulator.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Format.h"

#include <cmath>
#include <map>
#include <random>

using namespace mlac;
using llvm::Error;
using llvm::Expected;

namespace {
using Bytes = std::vector<uint8_t>;

/// One argument's memory; arguments that are numbers have none.
struct Memory {
  mlir::Type element;
  Bytes initial, simulated, computed;
  size_t owner = 0; // the first argument that is the same buffer: the bytes are there
};

class Comparison {
public:
  Comparison(const CompileTarget &target, CompileOptions options, const SimulateOptions &what,
             llvm::raw_ostream &os)
      : target(target), options(std::move(options)), what(what), os(os) {}
  Error run(mlir::ModuleOp module);

private:
  Error plan(mlir::ModuleOp module);
  Error checkPackage();
  Error plantBug(mlir::sm90::KernelOp program);
  Error lower();
  Error runLaunch(const StepLaunch &each);
  Error runStep();
  Error checkOutputs();
  void makeMemory();
  void keepMemory();
  Error simulate();
  simulator::Argument makeNumber(size_t argument);
  Error compute();
  Error compare();
  Bytes makeContent(const StepBufferInfo &buffer, mlir::Type element);
  mlir::OwningOpRef<mlir::ModuleOp> isolateKernel();

  const CompileTarget &target;
  CompileOptions options;
  const SimulateOptions &what;
  llvm::raw_ostream &os;
  AssemblerOptions assembler; // the caller's
  Bytes package;              // of the target alone, as PTX
  mlir::OwningOpRef<mlir::ModuleOp> tileModule, lowered;
  mlir::tile::KernelOp kernel;
  PlannedStep step;
  const StepLaunch *launch = nullptr;
  std::vector<Memory> memory;     // parallel to the launch's arguments
  std::map<int, Bytes> ofBuffers; // what a step's launches have left in its buffers
  std::mt19937 random;
};
} // namespace

static Error failed(const llvm::Twine &text) { return llvm::createStringError(text); }

static Error toError(runtime::Status status) {
  return status.isOk() ? Error::success() : failed(status.message());
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

/// Of the target alone, and as PTX: nobody runs the package.
Error Comparison::plan(mlir::ModuleOp module) {
  options.targets = {target.getName()};
  assembler = options.assembler;
  options.assembler.kind = AssemblerKind::None;
  options.costReport = nullptr;
  StageTimer timer;
  mlir::FailureOr<Bytes> compiled = compilePackage(module, options, timer);
  if (mlir::failed(compiled))
    return failed("the package was not compiled");
  package = std::move(*compiled);
  Expected<PlannedStep> planned =
      planStep(package, 0, getMachineOf(target.getName()).numSms, what.step);
  if (!planned)
    return planned.takeError();
  step = std::move(*planned);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> tiles =
      lowerToTile(module, target.getName(), options);
  if (mlir::failed(tiles))
    return failed("the module was not lowered again");
  tileModule = std::move(*tiles);
  return Error::success();
}

/// The launched kernel without the others.
mlir::OwningOpRef<mlir::ModuleOp> Comparison::isolateKernel() {
  mlir::OwningOpRef<mlir::ModuleOp> alone = tileModule->clone();
  for (mlir::Operation &op : llvm::make_early_inc_range(alone->getOps()))
    if (auto other = mlir::dyn_cast<mlir::tile::KernelOp>(op);
        !other || other.getSymName() != launch->kernel)
      op.erase();
  return alone;
}

Error Comparison::checkPackage() {
  if (what.package.empty())
    return Error::success();
  CompileOptions fresh = options;
  fresh.assembler = assembler;
  mlir::OwningOpRef<mlir::ModuleOp> alone = isolateKernel();
  return comparePackaged(what.package, {target, launch->kernel, *alone, package, fresh}, os);
}

/// The kernels as the simulator takes them.
Error Comparison::lower() {
  mlir::FailureOr<std::vector<EmittedCode>> code = target.emit(*tileModule, "sm90", options);
  if (mlir::failed(code))
    return failed("the kernels were not lowered");
  lowered = mlir::parseSourceString<mlir::ModuleOp>(code->front().bytes,
                                                    mlir::ParserConfig(tileModule->getContext()));
  return lowered ? Error::success() : failed("the kernels' text was not read again");
}

/// A number that no row, page or token has, in all bytes.
static constexpr uint8_t kAbsurd = 0x7f;

/// Numbers of mean 0 and deviation about 1/2, and codes of e4m3 without its NaN. Indices that the
/// device would have made are 0, but where it makes them.
Bytes Comparison::makeContent(const StepBufferInfo &buffer, mlir::Type element) {
  if (!buffer.metadata.empty())
    return Bytes(buffer.metadata.begin(), buffer.metadata.end());
  // Of a whole step's, every number is NaN or absurd until a launch has written it.
  if (what.isWholeStep() && buffer.name.empty())
    return Bytes(std::max<int64_t>(buffer.bytes, 1),
                 mlir::isa<mlir::FloatType>(element) ? 0xff : kAbsurd);
  constexpr uint8_t kFiniteCodes = 0xb7; // sign, and exponents below 2^0
  Bytes content(std::max<int64_t>(buffer.bytes, 1));
  std::uniform_real_distribution<float> uniform(-1, 1);
  if (element.isF32())
    for (size_t at = 0; at + sizeof(float) <= content.size(); at += sizeof(float)) {
      float value = uniform(random);
      std::memcpy(&content[at], &value, sizeof value);
    }
  else if (element.isBF16() || element.isF16())
    for (size_t at = 0; at + sizeof(uint16_t) <= content.size(); at += sizeof(uint16_t)) {
      llvm::APFloat value(uniform(random));
      bool ignored;
      value.convert(mlir::cast<mlir::FloatType>(element).getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &ignored);
      auto bits = static_cast<uint16_t>(value.bitcastToAPInt().getZExtValue());
      std::memcpy(&content[at], &bits, sizeof bits);
    }
  else if (mlir::isa<mlir::FloatType>(element))
    for (uint8_t &code : content)
      code = static_cast<uint8_t>(random()) & kFiniteCodes;
  return content;
}

void Comparison::makeMemory() {
  memory.clear();
  for (auto [argument, given] : llvm::zip(kernel.getBody().getArguments(), launch->arguments)) {
    Memory &each = memory.emplace_back();
    auto type = mlir::dyn_cast<mlir::MemRefType>(argument.getType());
    if (!type)
      continue;
    each.element = type.getElementType();
    each.owner = memory.size() - 1;
    for (size_t before = 0; before < each.owner; ++before)
      if (launch->arguments[before].buffer == given.buffer && memory[before].element) {
        each.owner = before;
        break;
      }
    if (each.owner + 1 != memory.size())
      continue;
    auto left = ofBuffers.find(given.buffer);
    each.initial = left != ofBuffers.end() ? left->second
                                           : makeContent(step.buffers[given.buffer], each.element);
    each.simulated = each.computed = each.initial;
  }
}

/// The next launch goes on from what the simulator has computed.
void Comparison::keepMemory() {
  for (size_t i = 0; i < memory.size(); ++i)
    if (memory[i].element && memory[i].owner == i)
      ofBuffers[launch->arguments[i].buffer] = memory[i].simulated;
}

//===----------------------------------------------------------------------===//
// Both runs
//===----------------------------------------------------------------------===//

/// An index, or the f32 whose bits a launch's slot has.
simulator::Argument Comparison::makeNumber(size_t argument) {
  int64_t number = launch->arguments[argument].number;
  if (!kernel.getBody().getArgument(argument).getType().isF32())
    return simulator::Argument::index(number);
  return simulator::Argument::f32(llvm::bit_cast<float>(static_cast<uint32_t>(number)));
}

Error Comparison::plantBug(mlir::sm90::KernelOp program) {
  if (what.bug.empty() || simulator::mutate(program, what.bug, what.bugPlace))
    return Error::success();
  return failed("the kernel has no place " + llvm::Twine(what.bugPlace) + " for the bug '" +
                what.bug + "'");
}

Error Comparison::simulate() {
  auto program = lowered->lookupSymbol<mlir::sm90::KernelOp>(launch->kernel);
  if (!program)
    return failed("the lowered module has no kernel '" + launch->kernel + "'");
  if (Error error = plantBug(program))
    return error;
  for (uint64_t seed = 0; seed < what.seeds; ++seed) {
    std::vector<Bytes> run;
    std::vector<simulator::Argument> arguments;
    for (const Memory &each : memory)
      run.push_back(each.initial);
    for (size_t i = 0; i < memory.size(); ++i)
      arguments.push_back(memory[i].element ? simulator::Argument::buffer(run[memory[i].owner])
                                            : makeNumber(i));
    simulator::Options settings;
    settings.seed = seed;
    settings.grid = launch->grid;
    if (std::optional<simulator::Finding> finding =
            simulator::simulate(program, arguments, settings)) {
      finding->emit();
      return failed("the simulator found a defect under seed " + llvm::Twine(seed));
    }
    for (size_t i = 0; i < memory.size(); ++i) {
      if (seed > 0 && memory[i].simulated != run[i])
        return failed("argument " + llvm::Twine(i) + " has other bits under seed " +
                      llvm::Twine(seed) + " than under seed 0");
      memory[i].simulated = std::move(run[i]);
    }
  }
  return Error::success();
}

/// By the CPU's back end, from the same tile program without its schedule.
Error Comparison::compute() {
  mlir::OwningOpRef<mlir::ModuleOp> alone = isolateKernel();
  for (auto each : alone->getOps<mlir::tile::KernelOp>())
    each->removeAttr(mlir::tile::kScheduleAttr);
  StageTimer timer;
  package::TargetT compiled;
  options.cpu = "native";
  if (mlir::failed(getCpuTarget().compile(*alone, options, timer, compiled)))
    return failed("the CPU's back end does not take this kernel");
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(package::Target::Pack(builder, &compiled));
  const auto *image = flatbuffers::GetRoot<package::Target>(builder.GetBufferPointer());
  std::shared_ptr<runtime::Device> device;
  std::unique_ptr<runtime::Program> program;
  if (Error error = toError(runtime::openDevice("cpu", /*threads=*/0, device)))
    return error;
  if (Error error = toError(device->load(*image, program)))
    return error;
  std::vector<uint64_t> arguments;
  for (size_t i = 0; i < memory.size(); ++i)
    arguments.push_back(memory[i].element
                            ? reinterpret_cast<uint64_t>(memory[memory[i].owner].computed.data())
                            : static_cast<uint64_t>(launch->arguments[i].number));
  runtime::Launch call{};
  call.numArgs = static_cast<uint32_t>(arguments.size());
  call.grid = launch->grid; // of CTAs, of which a cluster runs a program
  call.grid[0] /= static_cast<uint32_t>(
      lowered->lookupSymbol<mlir::sm90::KernelOp>(launch->kernel).getClusterSize());
  return toError(program->launch(call, arguments.data(), nullptr, nullptr));
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

static double readNumber(const Bytes &bytes, size_t index, mlir::FloatType type) {
  unsigned width = type.getWidth() / 8;
  uint64_t bits = 0;
  std::memcpy(&bits, &bytes[index * width], width);
  llvm::APFloat value(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits));
  bool ignored;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &ignored);
  return value.convertToDouble();
}

/// Both round once to the type; in between, weights of a softmax are rounded to 16 bits at
/// places of the schedule's choice, and sums are ordered otherwise.
static double boundOf(mlir::FloatType type) {
  constexpr double kNarrow = 1.0 / 64, kWide = 1.0 / 256;
  return type.getWidth() < 32 ? kNarrow : kWide;
}

Error Comparison::compare() {
  bool isWritten = false;
  std::string wrong;
  for (size_t i = 0; i < memory.size(); ++i) {
    const Memory &each = memory[i];
    bool isMetadata = each.element && !step.buffers[launch->arguments[i].buffer].metadata.empty();
    // In metadata only schedules count, each in its way.
    if (isMetadata || (each.simulated == each.initial && each.computed == each.initial))
      continue;
    isWritten = true;
    const std::string &name = step.buffers[launch->arguments[i].buffer].name;
    os << "  argument " << i << (name.empty() ? std::string(" (workspace)") : " '" + name + "'")
       << ": ";
    auto type = mlir::dyn_cast<mlir::FloatType>(each.element);
    if (!type) {
      bool isSame = each.simulated == each.computed;
      os << (isSame ? "the same bits\n" : "other bits\n");
      if (!isSame)
        wrong = "argument " + std::to_string(i);
      continue;
    }
    double error = 0, norm = 0;
    size_t count = each.initial.size() / (type.getWidth() / 8), changed = 0;
    for (size_t at = 0; at < count; ++at) {
      double got = readNumber(each.simulated, at, type),
             wanted = readNumber(each.computed, at, type);
      double before = readNumber(each.initial, at, type);
      changed += wanted != before && !(std::isnan(wanted) && std::isnan(before));
      if (got == wanted || (std::isnan(got) && std::isnan(wanted)))
        continue; // infinities, too
      error += (got - wanted) * (got - wanted);
      norm += wanted * wanted;
    }
    for (size_t at = 0; at < count; ++at) {
      double wanted = readNumber(each.computed, at, type);
      if (std::isfinite(wanted) && wanted != readNumber(each.initial, at, type))
        norm += wanted * wanted;
    }
    double relative = error == 0 ? 0 : std::sqrt(error / norm);
    os << llvm::format("%zu of %zu elements written, relative error %.2e of %.2e\n", changed, count,
                       relative, boundOf(type));
    if (!(relative <= boundOf(type)))
      wrong = "argument " + std::to_string(i);
  }
  if (!isWritten && !what.isWholeStep())
    return failed("the launch writes nothing");
  if (!wrong.empty())
    return failed("the simulator and the CPU's back end disagree about " + wrong);
  return Error::success();
}

Error Comparison::runLaunch(const StepLaunch &each) {
  launch = &each;
  kernel = tileModule->lookupSymbol<mlir::tile::KernelOp>(each.kernel);
  makeMemory();
  os << each.kernel << " of function '" << step.function << "': " << what.step.requests
     << " requests, " << what.step.contextLen << " cached, " << what.step.queryLen
     << " new tokens; grid " << each.grid[0] << " x " << each.grid[1] << " x " << each.grid[2]
     << "\n";
  if (Error error = checkPackage())
    return error;
  if (Error error = simulate())
    return error;
  os << "  simulator: no defect, and the same bits under " << what.seeds << " orders of events\n";
  if (Error error = compute())
    return error;
  if (Error error = compare())
    return error;
  keepMemory();
  return Error::success();
}

Error Comparison::runStep() {
  for (const StepLaunch &each : step.launches)
    if (Error error = runLaunch(each))
      return failed(each.kernel + ": " + llvm::toString(std::move(error)));
  return checkOutputs();
}

/// What nobody has written is NaN, and arithmetic carries it along.
Error Comparison::checkOutputs() {
  for (size_t i = 0; i < memory.size(); ++i) {
    auto type = mlir::dyn_cast_or_null<mlir::FloatType>(memory[i].element);
    if (!type || step.buffers[launch->arguments[i].buffer].name != "output")
      continue;
    const Bytes &bytes = memory[i].simulated;
    for (size_t at = 0; at < bytes.size() / (type.getWidth() / 8); ++at)
      if (!std::isfinite(readNumber(bytes, at, type)))
        return failed("element " + llvm::Twine(at) + " of the output is no finite number");
    return Error::success();
  }
  return failed("the last launch does not write the buffer 'output'");
}

Error Comparison::run(mlir::ModuleOp module) {
  if (Error error = plan(module))
    return error;
  if (Error error = lower())
    return error;
  if (what.isWholeStep())
    return runStep();
  std::string names;
  for (const StepLaunch &each : step.launches) {
    if (each.kernel == what.kernel)
      return runLaunch(each);
    names += " " + each.kernel;
  }
  return failed("function '" + step.function + "' does not launch '" + what.kernel +
                "' in this step; it launches" + names);
}

Error mlac::simulateKernel(mlir::ModuleOp module, CompileOptions options,
                           const SimulateOptions &what, llvm::raw_ostream &os) {
  for (const std::string &name : options.targets)
    if (const CompileTarget *target = findCompileTarget(name); target->info.isScheduled)
      return Comparison(*target, std::move(options), what, os).run(module);
  return failed(
      "no target whose kernels the simulator knows: expected --target=" +
      listTargets(" or ", [](const CompileTarget &each) { return each.info.isScheduled; }));
}
