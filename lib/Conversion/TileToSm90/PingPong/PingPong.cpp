//===- PingPong.cpp - two warpgroups that take turns at the tensor cores ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which kernels the schedule takes, the kernel's entry, and what its roles share.
//
//===----------------------------------------------------------------------===//

#include "PingPong/PingPong.h"

#include "Common/SoftmaxRole.h"
#include "PingPong/PingPongKernel.h"
#include "PingPong/PingPongModel.h"

#include "mla/Dialect/Tile/IR/MachineAttr.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::pingpong;

//===----------------------------------------------------------------------===//
// What the schedule takes
//===----------------------------------------------------------------------===//

bool mlac::canPingPong(tile::AttendOp attend, std::string &why) {
  if (attend.getOutputWidth() > sm90::kMaxWgmmaColumns) {
    why = "values of " + std::to_string(attend.getOutputWidth()) + " columns, a product has " +
          std::to_string(sm90::kMaxWgmmaColumns);
    return false;
  }
  if (attend.getRows() != sm90::kTileRows) {
    why = "its tiles have " + std::to_string(attend.getRows()) + " rows, not " +
          std::to_string(sm90::kTileRows);
    return false;
  }
  if (!canCloneInRoles(attend->getParentOfType<tile::KernelOp>(), why))
    return false;
  Type element = attend.getElementType();
  if (!element.isBF16() && !element.isF16()) {
    why = "wgmma needs bf16 or f16";
    return false;
  }
  for (auto [term, query] : llvm::enumerate(attend.getQueries())) {
    auto load = query.getDefiningOp<tile::LoadOp>();
    why = load ? "its keys are not stored as they are multiplied" : "a query is not a load";
    if (!load || !attend.isPlain(term) || !KeyBlocks::canCopyQueries(load, why) ||
        !KeyBlocks::canCopy(attend, attend.getKeys()[term], why))
      return false;
  }
  if (!attend.getValues()) {
    why = "its values are columns of its keys";
    return false;
  }
  return KeyBlocks::canCopy(attend, attend.getValues(), why) && findStarts(attend, why);
}

Options::Options(DenseAttentionLoop &loop) {
  auto given = getSchedule<tile::PingPongScheduleAttr>(loop.kernel);
  // Those of 192/128 columns where none are given.
  const Tuning tuning = tile::getMachine(loop.kernel).tuning;
  keyBlock = given.getKeyBlock().value_or(tuning.pingPongKeys);
  stages = given.getStages().value_or(2);
  producerRegisters = given.getProducerRegisters().value_or(tuning.pingPongProducerRegisters);
  consumerRegisters =
      given.getConsumerRegisters().value_or(getConsumerRegisters(producerRegisters));
}

//===----------------------------------------------------------------------===//
// Small things
//===----------------------------------------------------------------------===//

pingpong::Kernel::Kernel(DenseAttentionLoop &loop)
    : RoleKernel(loop.kernel, [](Operation *, Type type) { return convertRoleType(type); }),
      loop(loop), options(loop) {}

sm90::SmemType pingpong::Kernel::sharedType(int64_t rows, Operation *load) {
  auto type = cast<RankedTensorType>(load->getResult(0).getType());
  return getSharedType({rows, type.getDimSize(1)}, type.getElementType());
}

/// The output, whose width may be that of a block too, is rescaled and multiplied by
/// the schedule itself.
Type pingpong::Kernel::convertLoopType(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (tile && tile.getRank() == 2 && tile.getDimSize(1) == loop.getBlockKeys())
    return getFragmentType(options.keyBlock, tile.getElementType());
  return convertRoleType(type);
}

//===----------------------------------------------------------------------===//
// Items and blocks
//===----------------------------------------------------------------------===//

scf::ForOp
pingpong::Kernel::createLoop(Value from, Value to, ValueRange carried,
                             llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto result = scf::ForOp::create(b, from, to, constant32(1), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(result.getBody());
  scf::YieldOp::create(b, body(result.getInductionVar(), result.getRegionIterArgs()));
  return result;
}

std::pair<Value, Value> pingpong::Kernel::slotsOf(LazyCloner &cloner) {
  Value program = toIndex(cloner.get(loop.requests.getInitArgs().front()));
  Value before = arith::MulIOp::create(b, program, constantIndex(2));
  return {arith::AddIOp::create(b, before, constantIndex(kNextItems)),
          arith::AddIOp::create(b, before, constantIndex(kNextItems + 1))};
}

/// Both programs of an item go over the blocks of the longer one, so that turns and
/// stages are the same for both.
Value pingpong::Kernel::countBlocks(LazyCloner &cloner) {
  for (memref::LoadOp load : loop.requestLoads) // once for both
    (void)cloner.get(load.getResult());
  Value count, from = firstOf(cloner);
  for (int32_t consumer = 0; consumer < kConsumers; ++consumer) {
    LazyCloner::Scope scope(cloner);
    cloner.map(loop.programs.getInductionVar(), constantIndex(consumer));
    Value tokens = to32(arith::SubIOp::create(b, cloner.get(loop.keys.getUpperBound()), from));
    count = count ? Value(arith::MaxSIOp::create(b, count, tokens)) : tokens;
  }
  count = arith::AddIOp::create(b, count, constant32(options.keyBlock - 1));
  count = arith::DivSIOp::create(b, count, constant32(options.keyBlock));
  return arith::MaxSIOp::create(b, count, constant32(1));
}

Value pingpong::Kernel::firstOf(LazyCloner &cloner) {
  LazyCloner::Scope scope(cloner);
  cloner.map(loop.programs.getInductionVar(), constantIndex(0));
  return cloner.get(loop.keys.getLowerBound());
}

Value pingpong::Kernel::positionOf(Value first, Value block) {
  Value tokens = arith::MulIOp::create(b, block, constant32(options.keyBlock));
  return arith::AddIOp::create(b, first, toIndex(tokens));
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

void pingpong::Kernel::createMaps() {
  for (DenseAttentionLoop::Term &term : loop.terms) {
    queryBlocks.emplace_back(b, entry, term.query, sm90::kTileRows);
    keyBlocks.emplace_back(b, entry, term.keys, options.keyBlock);
  }
  valueBlocks.emplace_back(b, entry, loop.values, options.keyBlock);
}

/// Filled by one thread, freed by every warp of `consumers` warpgroups.
Value pingpong::Kernel::createRing(StringRef label, int64_t stages, ArrayRef<sm90::SmemType> tiles,
                                   int32_t consumers) {
  auto type = sm90::RingType::get(b.getContext(), stages, /*parts=*/1, tiles);
  return sm90::RingOp::create(b, type, /*full_count=*/1, consumers * sm90::kWarpgroupWarps,
                              IntegerAttr(), IntegerAttr(), b.getStringAttr(label));
}

void pingpong::Kernel::createRings() {
  SmallVector<sm90::SmemType> queryTiles, keyTiles;
  for (DenseAttentionLoop::Term &term : loop.terms) {
    queryTiles.push_back(sharedType(sm90::kTileRows, term.query));
    keyTiles.push_back(sharedType(options.keyBlock, term.keys));
  }
  queries[0] = createRing("first queries", 1, queryTiles, 1);
  queries[1] = createRing("second queries", 1, queryTiles, 1);
  keys = createRing("keys", options.stages, keyTiles, kConsumers);
  values =
      createRing("values", options.stages, sharedType(options.keyBlock, loop.values), kConsumers);
  items = createRing("items", 1, {}, kConsumers);
}

/// Tiles that outputs go through, where shared memory holds them beside the rings: whole
/// lines of a row are stored at once. A thread for itself has 4 bytes of a row, and 32 such
/// stores hold an item of one block up as long as its scores and its product together.
void pingpong::Kernel::createScratch() {
  auto type = getSharedType({sm90::kTileRows, sm90::kPanelColumns}, loop.getElementType());
  int64_t bytes = sm90::kSwizzleAtomBytes + kConsumers * type.getByteSize(); // and barriers
  for (Value ring : {queries[0], queries[1], keys, values})
    bytes += cast<sm90::RingType>(ring.getType()).getByteSize();
  if (bytes > sm90::kMaxSharedBytes)
    return;
  for (Value &tile : scratch)
    tile = sm90::AllocOp::create(b, type, /*offset=*/IntegerAttr());
}

void pingpong::Kernel::emitRole(StringRef name, int32_t warpgroup, int64_t registers,
                                llvm::function_ref<void()> body) {
  mlac::emitRole(b, name, warpgroup, b.getI32IntegerAttr(static_cast<int32_t>(registers)), body);
}

sm90::KernelOp pingpong::Kernel::build() {
  tile::KernelOp source = loop.kernel;
  kernel = createRoleKernel(b, source, kWarpgroups);
  entry.map(source.getBody().getArguments(), kernel.getBody().getArguments());
  createMaps();
  createRings();
  createScratch();
  // The thread that copies boxes of pages may spill their numbers: it waits most of the time.
  constexpr int64_t kSpillBytes = 64;
  if (loop.isPaged)
    kernel->setAttr(sm90::kSpillBytesAttr, b.getI64IntegerAttr(kSpillBytes));
  emitRole("load", 0, options.producerRegisters, [&] { emitProducer(); });
  emitRole("first", 1, options.consumerRegisters, [&] { emitConsumer(0); });
  emitRole("second", 2, options.consumerRegisters, [&] { emitConsumer(1); });
  sm90::ReturnOp::create(b);
  return kernel;
}

sm90::KernelOp mlac::buildPingPongSchedule(tile::AttendOp attend) {
  DenseAttentionLoop loop = expandDense(attend);
  return pingpong::Kernel(loop).build();
}
