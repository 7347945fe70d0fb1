//===- Lowering.h - what the patterns of sm90 -> nvvm share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How values of an `sm90.kernel` are represented, one SSA value to many:
//
//   fragment [64, N] split S   N/(2·S) elements, in register order (Layout.h)
//   rows [64]                  2 elements, for the thread's halves h = 0, 1
//   partial [64, 4]            the same
//   columns [N]                N/4 elements, column 8j + 2·(lane % 4) + i is number 2j + i
//   !sm90.smem                 i32: where it starts in the dynamic shared memory,
//                              in units of 16 bytes (what descriptors count in)
//   !sm90.stage                i32 slot, i32 phase
//   !sm90.ring                 nothing: its offsets are attributes of the sm90.ring
//   !sm90.tensor_map           the function's parameter, !llvm.ptr
//   memref                     base !llvm.ptr<1>, then as i64 whatever its type
//                              leaves dynamic: offset, sizes, strides
//   index, f32, i1, ...        itself
//
// A kernel argument memref<?xT> has no size at run time; it gets the largest.
//
// Before the conversion, roles and elected parts become scf.if (Roles.cpp). The
// attributes kRoleAttr and kElectedAttr on these say what a nested op stands in.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_CONVERSION_SM90TONVVM_LOWERING_H
#define MLA_LIB_CONVERSION_SM90TONVVM_LOWERING_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlac::sm90nvvm {

using mlir::ConversionPatternRewriter;
using mlir::ImplicitLocOpBuilder;
using mlir::MemRefType;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// Address spaces of NVPTX.
inline constexpr unsigned kGlobalSpace = 1;
inline constexpr unsigned kSharedSpace = 3;
inline constexpr unsigned kClusterSpace = 7; // shared memory of any CTA of the cluster

inline constexpr int64_t kWarpThreads = mlir::sm90::kWarpgroupThreads / mlir::sm90::kWarpgroupWarps;

/// An integer SSA value with the operators that Layout.h wants; folds constants.
class Int {
public:
  Int(ImplicitLocOpBuilder &builder, Value value) : builder(&builder), value(value) {}
  operator Value() const { return value; }

  friend Int operator+(Int a, Int b) { return a.emit<mlir::arith::AddIOp>(b); }
  friend Int operator*(Int a, Int b) { return a.emit<mlir::arith::MulIOp>(b); }
  friend Int operator/(Int a, Int b) { return a.emit<mlir::arith::DivUIOp>(b); }
  friend Int operator%(Int a, Int b) { return a.emit<mlir::arith::RemUIOp>(b); }
  friend Int operator^(Int a, Int b) { return a.emit<mlir::arith::XOrIOp>(b); }
  friend Int operator+(Int a, int64_t b) { return b == 0 ? a : a + a.like(b); }
  friend Int operator*(Int a, int64_t b) { return b == 1 ? a : a * a.like(b); }
  friend Int operator/(Int a, int64_t b) { return b == 1 ? a : a / a.like(b); }
  friend Int operator%(Int a, int64_t b) { return a % a.like(b); }
  friend Int operator^(Int a, int64_t b) { return a ^ a.like(b); }

private:
  template <typename Op> Int emit(Int b) {
    return Int(*builder, builder->createOrFold<Op>(value, b.value));
  }
  Int like(int64_t constant) const {
    return Int(*builder, mlir::arith::ConstantOp::create(
                             *builder, builder->getIntegerAttr(value.getType(), constant)));
  }

  ImplicitLocOpBuilder *builder;
  Value value;
};

/// Constants, and casts between the integer types in use.
Int constant(ImplicitLocOpBuilder &b, Type type, int64_t value);
inline Int constant32(ImplicitLocOpBuilder &b, int64_t value) {
  return constant(b, b.getI32Type(), value);
}
inline Int constant64(ImplicitLocOpBuilder &b, int64_t value) {
  return constant(b, b.getI64Type(), value);
}
/// `index`, i32 (sign-extended) or i64 to i64.
Int toI64(ImplicitLocOpBuilder &b, Value value);
/// `value` where `condition` holds (null: everywhere), else `other`.
Value selectOf(ImplicitLocOpBuilder &b, Value condition, Value value, Value other);
/// Conjunction; a null value stands for `true`.
Value andOf(ImplicitLocOpBuilder &b, Value left, Value right);
Int compare(ImplicitLocOpBuilder &b, mlir::arith::CmpIPredicate predicate, Value left, Value right);
/// The constant behind `value`, looking through casts.
std::optional<int64_t> getConstant(Value value);

/// Runs `body` where `condition` holds (null: everywhere).
void emitIf(ImplicitLocOpBuilder &b, Value condition, llvm::function_ref<void()> body);

/// Bytes of the zeros that loads outside a view read: a row of the widest
/// fragment (512 columns of 4 bytes) with a column stride of 2.
inline constexpr int64_t kZeroBytes = 4096;

/// Number of its role on the scf.if that a sm90.role has become, and the mark of
/// one that a sm90.elect has become.
inline constexpr llvm::StringLiteral kRoleAttr = "mlac.role", kElectedAttr = "mlac.elected";

/// Where the dynamic shared memory of a kernel without static shared memory
/// starts on sm_90. As a constant it makes addresses and descriptors immediates;
/// with the symbol's address the assembler keeps every sum in a register and
/// spills (380 against 531 TFLOP/s). The prologue checks it.
inline constexpr int64_t kSharedBase = 1024;

/// What every pattern knows of the kernel, or of one of its roles: values computed
/// once at the entry, of type i32 where not said otherwise.
struct Kernel {
  int64_t warpgroups = 1; // of the role, in a role
  int64_t cluster = 1;    // CTAs
  /// Neighbouring columns of a thread: 2, that of wgmma, or more in kernels without.
  int64_t columnRun = 2;
  int64_t barrier = 0; // hardware barrier of these threads; 0: all of the CTA
  Value thread;        // within the CTA or role
  Value groupThread;   // within the warpgroup
  Value lane;          // within the warp
  Value warpgroup;     // within the CTA or role; equal in a warp, known to be so
                       // by the assembler
  Value shared;        // !llvm.ptr<3>: the dynamic shared memory
  Value zeros;         // !llvm.ptr<1>: kZeroBytes bytes of zeros
  std::vector<Kernel> roles;
  int64_t getThreads() const { return warpgroups * mlir::sm90::kWarpgroupThreads; }
  /// What `op` stands in: this, or one of the roles.
  const Kernel &getScope(mlir::Operation *op) const;

  /// Pointer to `bytes` (i32) behind the start of a tile, given as !sm90.smem is.
  Value getSharedAddress(ImplicitLocOpBuilder &b, Value tile, Value bytes) const;
  Value getSharedAddress(ImplicitLocOpBuilder &b, Value tile, int64_t bytes = 0) const;

  /// Row of half `h`, and first column, of this thread in a fragment; `split`
  /// counts the warpgroups that share the columns (see #sm90.fragment).
  Int getRow(ImplicitLocOpBuilder &b, int64_t h) const;
  Int getPart(ImplicitLocOpBuilder &b, int64_t split) const;
  Int getColumn(ImplicitLocOpBuilder &b, RankedTensorType type) const;
  /// columnRun, or less for tiles with too few columns for four lanes.
  int64_t getRun(RankedTensorType type) const;
  /// Whether this warpgroup writes fragments of that split; null: it does.
  Value isWriter(ImplicitLocOpBuilder &b, int64_t split) const;
};

/// What an element is in a register and in memory: e4m3, which LLVM does not have, is
/// its bits.
Type getRegisterType(Type element);

/// Columns that one warpgroup holds, and elements that one thread does.
int64_t getPartColumns(RankedTensorType fragment);
int64_t getRegisterCount(RankedTensorType tile);

//===----------------------------------------------------------------------===//
// Views of global memory
//===----------------------------------------------------------------------===//

/// A strided view, taken apart. Constants are SSA constants here and fold.
struct View {
  Value base;
  Type elementType;
  Value offset;                            // elements, i64
  llvm::SmallVector<Value> sizes, strides; // i64
};
View getView(ImplicitLocOpBuilder &b, MemRefType type, ValueRange parts);
/// Types of the parts of a memref.
llvm::SmallVector<Type> getViewTypes(MemRefType type);

/// One row of a two-dimensional tile in global memory: is it there, and where
/// does its view column 0 lie (elements from the base, i64)?
struct Row {
  Value inside; // i1, null: always
  Value offset;
};

/// A two-dimensional tile in global memory. Rows are found by whatever the op
/// says: strides, an index list, a block table, a slot list.
struct TileAccess {
  Value base;
  Value zeros; // what is read instead of elements that are outside
  Type elementType;
  std::function<Row(ImplicitLocOpBuilder &, Value row)> getRow; // row: i32
  Value firstColumn, columns, columnStride;                     // i64
  /// Of a dense view, else null: a row's offset is viewOffset + index · rowStride.
  Value viewOffset = {}, firstRow = {}, rows = {}, rowStride = {}; // i64
  /// Whether the tile's columns [0, count) are known to be inside the view.
  bool areColumnsInside(int64_t count) const;
  /// The same of the tile's rows.
  bool areRowsInside(int64_t count) const;
  /// i1: is tile column `column` (i32) inside? Null if `known`.
  Value isColumnInside(ImplicitLocOpBuilder &b, Value column, bool known) const;
  /// Address of tile column `column` (i32) in a row.
  Value getAddress(ImplicitLocOpBuilder &b, const Row &row, Value column) const;
  /// `address`, or that of zeros where not `inside` (null: everywhere inside).
  /// Loads need no branch this way, so that the assembler may overlap them.
  Value getLoadAddress(ImplicitLocOpBuilder &b, Value address, Value inside) const;
};
/// Row `index` (i64) of a view whose rows are its first dimension, or its first two where they are
/// `inGroups` (tile.load).
Row getViewRow(ImplicitLocOpBuilder &b, const View &view, Value index, bool inGroups);
TileAccess getDenseAccess(const Kernel &kernel, const View &view, Value rowOffset,
                          Value columnOffset);
TileAccess getListAccess(const Kernel &kernel, const View &view, const View &indices, Value first,
                         Value column);
TileAccess getPagedAccess(const Kernel &kernel, const View &pool, const View &table, Value token,
                          Value column, Value limit);
TileAccess getSlotAccess(const Kernel &kernel, const View &pool, const View &slots, Value first,
                         Value column);
/// `base` moved by `elements` (i64 or i32) elements.
Value getElementAddress(ImplicitLocOpBuilder &b, Value base, Type elementType, Value elements);
/// Address of the view's element at `indices`.
Value getViewAddress(ImplicitLocOpBuilder &b, const View &view, mlir::ArrayRef<ValueRange> indices);
/// An address moved by `bytes` (i32).
Value moveAddress(ImplicitLocOpBuilder &b, Value base, Value bytes);

//===----------------------------------------------------------------------===//
// Roles and barriers
//===----------------------------------------------------------------------===//

/// Makes an scf.if of every sm90.role and sm90.elect of the function's body, and
/// an assumption of every loop marked sm90.at_least_once; fills `kernel.roles`.
void expandRoles(mlir::LLVM::LLVMFuncOp function, Kernel &kernel);
/// How often a role's loop is unrolled is the schedule's choice: copies of code
/// that runs seldom cost more in instruction fetches than they save.
void keepRolled(mlir::scf::ForOp loop);
/// Initialises the barriers of the rings, and fetches the tensor maps.
void emitRingSetup(ImplicitLocOpBuilder &b, const Kernel &kernel,
                   mlir::ArrayRef<mlir::sm90::RingOp> rings, ValueRange tensorMaps);
/// What a launch must know of a tensor map: an element of `mlac.tensor_maps`.
mlir::Attribute describeTensorMap(mlir::sm90::TensorMapOp map);
/// Shared address of a full barrier (of part `part`), or of the empty one, of a
/// stage. Null, with an error, if the ring is not the result of a sm90.ring.
Value getRingBarrier(ImplicitLocOpBuilder &b, const Kernel &kernel, Value ring, ValueRange stage,
                     std::optional<int64_t> part);
/// Whether one thread alone executes `op`.
bool isElected(mlir::Operation *op);
/// All threads of the kernel, or of the role, meet.
void emitBarrier(ImplicitLocOpBuilder &b, const Kernel &kernel);
/// The same, and whether the condition of any of them holds.
Value emitBarrierAny(ImplicitLocOpBuilder &b, const Kernel &kernel, Value condition);
/// All threads of the cluster meet.
void emitClusterBarrier(ImplicitLocOpBuilder &b);
/// The lanes of the warp meet.
void emitWarpBarrier(ImplicitLocOpBuilder &b);

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Two 16-bit elements as one i32, the first in the low half; and back.
Value packPair(ImplicitLocOpBuilder &b, Value first, Value second);
std::pair<Value, Value> unpackPair(ImplicitLocOpBuilder &b, Type elementType, Value packed);

/// Keeps what computes `registers` (f32, i32) before what follows.
llvm::SmallVector<Value> emitPin(ImplicitLocOpBuilder &b, ValueRange registers);

/// `wgmma.wait_group` through which the accumulators' registers pass.
llvm::SmallVector<Value> emitTiedWgmmaWait(ImplicitLocOpBuilder &b, int64_t pending,
                                           ValueRange registers);

/// `wgmma.mma_async` with lhs in registers.
struct RegisterWgmma {
  Value accumulator;            // struct of f32
  llvm::SmallVector<Value> lhs; // four i32 of two elements each
  Value rhs;                    // descriptor
  int64_t columns;
  bool isBF16, isMNMajor, overwrite;
};
/// The new accumulator, a struct.
Value emitRegisterWgmma(ImplicitLocOpBuilder &b, const RegisterWgmma &wgmma);
/// `griddepcontrol.wait`, which no access to memory crosses.
void emitDependencyWait(ImplicitLocOpBuilder &b);
/// `mbarrier.arrive` on the barrier at the shared address `barrier` in the CTA of
/// rank `rank` (i32) of the cluster.
void emitRemoteArrive(ImplicitLocOpBuilder &b, Value barrier, Value rank);
/// The same with what the thread wrote to the cluster's shared memory.
void emitRemotePublish(ImplicitLocOpBuilder &b, Value barrier, Value rank);
/// The place of the shared address `own` in the CTA of rank `rank` (i32), a pointer to the
/// cluster's shared memory.
Value mapToRank(ImplicitLocOpBuilder &b, Value own, Value rank);

/// A pattern that knows the kernel.
template <typename SourceOp> struct KernelPattern : public mlir::OpConversionPattern<SourceOp> {
  KernelPattern(const mlir::TypeConverter &converter, mlir::MLIRContext *context,
                const Kernel &kernel)
      : mlir::OpConversionPattern<SourceOp>(converter, context), entry(kernel) {}
  /// The kernel, or the role that `op` stands in.
  const Kernel &getKernel(mlir::Operation *op) const { return entry.getScope(op); }
  /// All of its threads.
  int64_t getLaunchedThreads() const { return entry.getThreads(); }

private:
  const Kernel &entry;
};

using mlir::RewritePatternSet;
using mlir::TypeConverter;
void populateViewPatterns(const TypeConverter &, RewritePatternSet &);
void populateCopyPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateFragmentMemoryPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateFragmentPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateSharedTilePatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateCodeTilePatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateElementwisePatterns(const TypeConverter &, RewritePatternSet &);
void populateWgmmaPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateBarrierPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateRingPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateTmaPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateSelectPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);
void populateSelectKeepPatterns(const TypeConverter &, RewritePatternSet &, const Kernel &);

} // namespace mlac::sm90nvvm

#endif // MLA_LIB_CONVERSION_SM90TONVVM_LOWERING_H
