//===- Sm90ToNvvm.cpp - kernels become functions of llvm and nvvm ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each sm90.kernel becomes an llvm.func whose body keeps scf, cf and scalar
// arith; values are represented as Lowering.h says. Needs the offsets of
// sm90-allocate-shared-memory and the fences of sm90-insert-proxy-fences.
//
//===----------------------------------------------------------------------===//

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/KernelAttrs.h"

#include "Lowering.h"

#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/IR/Threading.h"

#include <limits>

namespace mlac {
#define GEN_PASS_DEF_CONVERTSM90TONVVM
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;
using namespace mlac::sm90nvvm;

/// The dynamic shared memory of every kernel of the module, and zeros in global
/// memory.
static constexpr StringLiteral kSharedSymbol = "mlac_shared";
static constexpr StringLiteral kZerosSymbol = "mlac_zeros";
/// Alignment of the zeros: that of the widest access.
static constexpr int64_t kZeroAlignment = 16;

static LLVM::LLVMPointerType getPointerType(MLIRContext *context, unsigned space) {
  return LLVM::LLVMPointerType::get(context, space);
}

/// Whether it is known which thread has which element.
static bool isInRegisters(RankedTensorType type) {
  return sm90::isFragment(type) || sm90::isRows(type) || sm90::isPartial(type) ||
         sm90::isColumns(type);
}

static void addConversions(TypeConverter &converter) {
  converter.addConversion([](Type type) { return type; });
  converter.addConversion(
      [](sm90::SmemType type) -> Type { return IntegerType::get(type.getContext(), 32); });
  converter.addConversion([](sm90::TensorMapType type) -> Type {
    return LLVM::LLVMPointerType::get(type.getContext());
  });
  converter.addConversion([](sm90::StageType type, SmallVectorImpl<Type> &results) {
    results.append(2, IntegerType::get(type.getContext(), 32)); // slot, phase
    return success();
  });
  converter.addConversion([](MemRefType type, SmallVectorImpl<Type> &results) {
    llvm::append_range(results, getViewTypes(type));
    return success();
  });
  converter.addConversion(
      [](RankedTensorType type, SmallVectorImpl<Type> &results) -> std::optional<LogicalResult> {
        if (!isInRegisters(type))
          return failure();
        results.append(getRegisterCount(type), getRegisterType(type.getElementType()));
        return success();
      });
  auto materialize = [](OpBuilder &builder, Type type, ValueRange inputs, Location loc) -> Value {
    return UnrealizedConversionCastOp::create(builder, loc, type, inputs).getResult(0);
  };
  converter.addSourceMaterialization(materialize);
  converter.addTargetMaterialization(
      [](OpBuilder &builder, TypeRange types, ValueRange inputs, Location loc) {
        return llvm::to_vector_of<Value>(
            UnrealizedConversionCastOp::create(builder, loc, types, inputs).getResults());
      });
}

//===----------------------------------------------------------------------===//
// The function around a kernel's body
//===----------------------------------------------------------------------===//

static void declareMemory(ModuleOp module) {
  if (module.lookupSymbol(kSharedSymbol))
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto getBytes = [&](int64_t count) {
    return LLVM::LLVMArrayType::get(builder.getI8Type(), count);
  };
  LLVM::GlobalOp::create(builder, module.getLoc(), getBytes(0), /*isConstant=*/false,
                         LLVM::Linkage::External, kSharedSymbol, /*value=*/Attribute(),
                         /*alignment=*/sm90::kSwizzleAtomBytes, kSharedSpace);
  // Visible from outside, so that LLVM does not evaluate loads of it: that would
  // bring back the branches which it is there to save.
  LLVM::GlobalOp::create(builder, module.getLoc(), getBytes(kZeroBytes), /*isConstant=*/false,
                         LLVM::Linkage::External, kZerosSymbol,
                         LLVM::ZeroAttr::get(module.getContext()), kZeroAlignment, kGlobalSpace);
}

static Type getParameterType(Type type) {
  if (isa<MemRefType>(type))
    return getPointerType(type.getContext(), kGlobalSpace);
  return type.isIndex() ? IntegerType::get(type.getContext(), 64) : type;
}

/// Gives `argument` of the function the type that the kernel's body knows.
static Value castArgument(ImplicitLocOpBuilder &b, Type type, Value argument) {
  if (type.isIndex())
    return arith::IndexCastOp::create(b, type, argument);
  if (!isa<MemRefType>(type))
    return argument;
  Value size = constant64(b, std::numeric_limits<int64_t>::max());
  return UnrealizedConversionCastOp::create(b, type, ValueRange{argument, size}).getResult(0);
}

/// The dynamic shared memory, and a trap if it is not where kSharedBase says.
static Value emitSharedMemory(ImplicitLocOpBuilder &b, int64_t cluster) {
  Type i32 = b.getI32Type(), pointer = getPointerType(b.getContext(), kSharedSpace);
  Value symbol = LLVM::AddressOfOp::create(b, pointer, kSharedSymbol);
  // In a cluster the bits above hold the CTA's rank.
  constexpr int64_t rankMask = 0xFFFFFF;
  Value whole = LLVM::PtrToIntOp::create(b, i32, symbol), mask = constant32(b, rankMask);
  Value address = arith::AndIOp::create(b, whole, mask);
  Value base = constant32(b, kSharedBase);
  emitIf(b, compare(b, arith::CmpIPredicate::ne, address, base), [&] { LLVM::Trap::create(b); });
  return cluster > 1 ? symbol : Value(LLVM::IntToPtrOp::create(b, pointer, base));
}

static bool usesSharedMemory(sm90::KernelOp kernel) {
  auto isPlace = [](Operation *op) {
    return isa<sm90::AllocOp, sm90::RingOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
  };
  return kernel.walk(isPlace).wasInterrupted();
}

/// Computes what patterns need at the start of the function.
static Kernel emitPrologue(ImplicitLocOpBuilder &b, sm90::KernelOp op) {
  Kernel kernel;
  kernel.warpgroups = op.getWarpgroups();
  if (auto run = op->getAttrOfType<IntegerAttr>(sm90::kColumnRunAttr))
    kernel.columnRun = run.getInt();
  kernel.cluster = op.getClusterSize();
  Type i32 = b.getI32Type();
  Int thread(b, NVVM::ThreadIdXOp::create(b, i32));
  kernel.thread = thread;
  kernel.groupThread = kernel.warpgroups == 1 ? thread : thread % sm90::kWarpgroupThreads;
  kernel.lane = thread % kWarpThreads;
  kernel.warpgroup = constant32(b, 0);
  if (kernel.warpgroups > 1) // lane 0's value, so that the assembler sees a uniform one
    kernel.warpgroup = NVVM::ShflOp::create(
        b, i32, constant32(b, -1), thread / sm90::kWarpgroupThreads, constant32(b, 0),
        constant32(b, kWarpThreads - 1), NVVM::ShflKind::idx, UnitAttr());
  if (usesSharedMemory(op))
    kernel.shared = emitSharedMemory(b, kernel.cluster);
  kernel.zeros =
      LLVM::AddressOfOp::create(b, getPointerType(b.getContext(), kGlobalSpace), kZerosSymbol);
  return kernel;
}

static SmallVector<sm90::TensorMapOp> getTensorMaps(sm90::KernelOp kernel) {
  SmallVector<sm90::TensorMapOp> maps;
  kernel.walk([&](sm90::TensorMapOp map) { maps.push_back(map); });
  return maps;
}

/// Makes the parameter of a tensor map: 128 bytes in constant memory.
static void markTensorMap(LLVM::LLVMFuncOp function, unsigned argument) {
  Builder builder(function.getContext());
  constexpr int64_t words = 16, alignment = 64;
  auto type = LLVM::LLVMArrayType::get(builder.getI64Type(), words);
  function.setArgAttr(argument, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(type));
  function.setArgAttr(argument, LLVM::LLVMDialect::getAlignAttrName(),
                      builder.getI64IntegerAttr(alignment));
  function.setArgAttr(argument, NVVM::NVVMDialect::getGridConstantAttrName(),
                      builder.getUnitAttr());
}

/// Adds a parameter for each tensor map, and tells the launch what they describe.
static void addTensorMaps(LLVM::LLVMFuncOp function, sm90::KernelOp kernel) {
  SmallVector<sm90::TensorMapOp> maps = getTensorMaps(kernel);
  for (unsigned i = 0; i < maps.size(); ++i)
    markTensorMap(function, kernel.getArgumentTypes().size() + i);
  if (!maps.empty())
    function->setAttr(
        mlac::kTensorMapsAttr,
        ArrayAttr::get(kernel.getContext(), llvm::map_to_vector(maps, describeTensorMap)));
}

static LLVM::LLVMFuncOp createFunction(sm90::KernelOp kernel) {
  OpBuilder builder(kernel);
  SmallVector<Type> parameters = llvm::map_to_vector(kernel.getArgumentTypes(), getParameterType);
  parameters.append(getTensorMaps(kernel).size(), LLVM::LLVMPointerType::get(kernel.getContext()));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(kernel.getContext()), parameters);
  auto function = LLVM::LLVMFuncOp::create(builder, kernel.getLoc(), kernel.getName(), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(kernel.getThreads())}));
  auto resident = kernel->getAttrOfType<IntegerAttr>(tile::kResidentProgramsAttr);
  function->setAttr(
      NVVM::NVVMDialect::getMinctasmAttrName(),
      builder.getI32IntegerAttr(resident ? static_cast<int32_t>(resident.getInt()) : 1));
  if (int32_t cluster = kernel.getClusterSize(); cluster > 1)
    function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                      builder.getDenseI32ArrayAttr({cluster, 1, 1}));
  function->setAttr(mlac::kThreadsAttr, builder.getI64IntegerAttr(kernel.getThreads()));
  function->setAttr(mlac::kSharedBytesAttr,
                    builder.getI64IntegerAttr(kernel.getSharedBytes().value_or(0)));
  if (auto spills = kernel->getAttrOfType<IntegerAttr>(sm90::kSpillBytesAttr))
    function->setAttr(mlac::kSpillBytesAttr, spills);
  addTensorMaps(function, kernel);
  return function;
}

/// Moves the kernel's body into a function; the body is not converted yet, but
/// its roles are.
static std::pair<LLVM::LLVMFuncOp, Kernel> outlineKernel(sm90::KernelOp op) {
  LLVM::LLVMFuncOp function = createFunction(op);
  Block *entry = function.addEntryBlock(*std::make_unique<OpBuilder>(op));
  ImplicitLocOpBuilder b(op.getLoc(), op.getContext());
  b.setInsertionPointToStart(entry);
  Kernel kernel = emitPrologue(b, op);
  Block &body = op.getBody().front();
  ValueRange parameters = entry->getArguments();
  ValueRange mapParameters = parameters.drop_front(body.getNumArguments());
  SmallVector<sm90::RingOp> rings(body.getOps<sm90::RingOp>());
  emitRingSetup(b, kernel, rings, mapParameters);
  for (auto [map, parameter] : llvm::zip_equal(getTensorMaps(op), mapParameters)) {
    auto cast = UnrealizedConversionCastOp::create(b, map.getResult().getType(), parameter);
    map.replaceAllUsesWith(cast.getResult(0));
    map.erase();
  }
  for (auto [argument, parameter] : llvm::zip(body.getArguments(), parameters))
    argument.replaceAllUsesWith(castArgument(b, argument.getType(), parameter));
  entry->getOperations().splice(entry->end(), body.getOperations());
  op.erase();
  expandRoles(function, kernel);
  return {function, kernel};
}

/// Four times the registers that a thread has. Each element is a value of its own, so that a tile
/// of any size would take any time and memory.
static constexpr int64_t kMaxElements = 1024;

static LogicalResult checkTensor(Operation *op, RankedTensorType tensor) {
  if (!isInRegisters(tensor))
    return op->emitOpError("expected tensors with an encoding of sm90, got ") << tensor;
  int64_t count = getRegisterCount(tensor);
  if (count > kMaxElements)
    return op->emitOpError("expected at most ")
           << kMaxElements << " elements of a tile in a thread, got " << count << " of " << tensor;
  return success();
}

/// That every tensor has an encoding; patterns ask it how many registers there are.
static LogicalResult checkTensors(sm90::KernelOp kernel) {
  WalkResult walk = kernel.walk([](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && failed(checkTensor(op, tensor)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

/// What only earlier passes can provide.
static LogicalResult checkKernel(sm90::KernelOp kernel) {
  constexpr int64_t maxRoles = 7; // each has a hardware barrier below the named ones
  auto roles = kernel.getBody().front().getOps<sm90::RoleOp>();
  if (llvm::range_size(roles) > maxRoles)
    return kernel.emitOpError("expected at most ")
           << maxRoles << " roles, got " << llvm::range_size(roles);
  for (auto ring : kernel.getBody().front().getOps<sm90::RingOp>())
    if (!ring.getBarrierOffset() ||
        (!ring.getOffset() && !ring.getResult().getType().getTiles().empty()))
      return ring.emitOpError("has no offsets; run sm90-allocate-shared-memory first");
  return checkTensors(kernel);
}

//===----------------------------------------------------------------------===//
// The conversion
//===----------------------------------------------------------------------===//

static bool hasTile(Operation *op) {
  auto isTile = [](Type type) { return isa<RankedTensorType>(type); };
  return llvm::any_of(op->getOperandTypes(), isTile) || llvm::any_of(op->getResultTypes(), isTile);
}

static bool hasView(Operation *op) {
  return llvm::any_of(op->getResultTypes(), llvm::IsaPred<MemRefType>);
}

/// Functions of f32 that Elementwise.cpp has instructions for.
static bool isFunctionOfF32(Operation *op) {
  return isa<math::Exp2Op, math::ExpOp, math::Log2Op, math::LogOp, math::RsqrtOp, math::SqrtOp,
             math::AbsFOp, arith::DivFOp>(op) &&
         op->getResult(0).getType().isF32();
}

static LogicalResult convertBody(LLVM::LLVMFuncOp function, const Kernel &kernel) {
  MLIRContext *context = function.getContext();
  TypeConverter converter;
  addConversions(converter);
  ConversionTarget target(*context);
  target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  target.addIllegalDialect<sm90::Sm90Dialect, memref::MemRefDialect>();
  // Patterns read the attributes of rings.
  target.addLegalOp<UnrealizedConversionCastOp, sm90::RingOp>();
  target.addDynamicallyLegalDialect<arith::ArithDialect, math::MathDialect>(
      [](Operation *op) { return !hasTile(op) && !hasView(op) && !isFunctionOfF32(op); });
  RewritePatternSet patterns(context);
  scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns, target);
  populateViewPatterns(converter, patterns);
  populateCopyPatterns(converter, patterns, kernel);
  populateFragmentMemoryPatterns(converter, patterns, kernel);
  populateFragmentPatterns(converter, patterns, kernel);
  populateSharedTilePatterns(converter, patterns, kernel);
  populateCodeTilePatterns(converter, patterns, kernel);
  populateElementwisePatterns(converter, patterns);
  populateWgmmaPatterns(converter, patterns, kernel);
  populateBarrierPatterns(converter, patterns, kernel);
  populateRingPatterns(converter, patterns, kernel);
  populateTmaPatterns(converter, patterns, kernel);
  populateSelectPatterns(converter, patterns, kernel);
  if (failed(applyPartialConversion(function, target, std::move(patterns))))
    return failure();

  SmallVector<UnrealizedConversionCastOp> casts, remaining;
  function.walk([&](Operation *op) {
    if (isa<sm90::RingOp>(op))
      return op->erase();
    if (auto cast = dyn_cast<UnrealizedConversionCastOp>(op))
      casts.push_back(cast);
    op->removeAttr(kRoleAttr);
    op->removeAttr(kElectedAttr);
  });
  reconcileUnrealizedCasts(casts, &remaining);
  for (UnrealizedConversionCastOp cast : remaining)
    if (!cast.use_empty())
      return cast.emitError("convert-sm90-to-nvvm left a value of type ")
             << cast.getResultTypes() << " that no pattern converts";
  return success();
}

namespace {
class ConvertSm90ToNvvm : public mlac::impl::ConvertSm90ToNvvmBase<ConvertSm90ToNvvm> {
public:
  void runOnOperation() override {
    SmallVector<sm90::KernelOp> kernels(getOperation().getOps<sm90::KernelOp>());
    if (llvm::any_of(kernels, [](sm90::KernelOp kernel) { return failed(checkKernel(kernel)); }))
      return signalPassFailure();
    if (!kernels.empty())
      declareMemory(getOperation());
    // Functions are made one after the other, in a list of the module; what
    // happens inside them is independent.
    SmallVector<std::pair<LLVM::LLVMFuncOp, Kernel>> functions =
        llvm::map_to_vector(kernels, outlineKernel);
    if (failed(failableParallelForEach(&getContext(), functions, [](auto &entry) {
          return convertBody(entry.first, entry.second);
        })))
      signalPassFailure();
  }
};
} // namespace
