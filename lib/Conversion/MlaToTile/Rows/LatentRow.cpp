//===- LatentRow.cpp - norm, rotation and append in one pass over a row ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows a latent projection, for one token:
//
//     [x | tail] = sum of the parts of its row
//     latent = multiplier · gamma · RMSNorm(x)          to its tensor or to the cache, as it is or
//                                                       as codes
//     k_pe   = tail, rotated by the token's angles      as it is to its tensor; to the cache
//                                                       rotated, where that is asked for, as codes
//                                                       where one scale is all the row's
//
// What goes to the cache may go to tensors, too, for what attends to new tokens' rows themselves.
//
// Into the cache it goes at the token's slot; a slot outside of the pool drops the
// row (paged-cache.md section 5).
//
//===----------------------------------------------------------------------===//

#include "Plan/PagedPool.h"
#include "Rows/Codes.h"
#include "Rows/GroupColumns.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

namespace {
/// Writes the kernel's body; arguments are the source, gamma, then those of the pool
/// with slots, positions and angles of a rotation, what is kept and the number of rows, or latent
/// and tail.
class LatentRow {
public:
  LatentRow(StepLowering &step, const LatentRows &latent, Value rows)
      : step(step), source(latent.source), norm(latent.norm), target(latent.target), rows(rows),
        width(norm ? norm->gamma.size(0) : 0) {}

  SmallVector<Value> args();
  std::string name();
  /// Whether a program may write several rows: those of few are in parts.
  bool canWriteMany() { return target.append && source.parts == 1; }
  void write(KernelBuilder &b, ValueRange args, int64_t count = 1);

private:
  Value load(KernelBuilder &b, RowKernel &row, Value buffer, Value token, int64_t column);
  Value loadTail(KernelBuilder &b, RowKernel &row, Value buffer, Value token, int64_t behind = 0);
  Value normalise(KernelBuilder &b, RowKernel &row, Value x, Value gamma);
  GroupColumns::Tiles loadGroups(GroupColumns &groups, KernelBuilder &b, Value buffer, Value token);
  void storeCodes(KernelBuilder &b, ValueRange args, Value token);

  /// A row on its way to the cache, and its place there; elements.
  struct Appended {
    Value token, isInside, latentBase, scaleBase, ropeBase;
    Value latent, first, second, cos, sin; // without a rotation the tail is `first`
    Value layerScale;                      // of all of its codes, or null
  };
  /// What a kernel that appends gets behind the pool's arguments; null where it is not asked for.
  struct Metadata {
    Value slots, positions, table, latents, keys, rows;

    /// Those that are asked for, in the arguments' order.
    SmallVector<Value *, 6> given() {
      SmallVector<Value *, 6> all{&slots, &positions, &table, &latents, &keys, &rows};
      llvm::erase_if(all, [](Value *value) { return !*value; });
      return all;
    }
  };
  Metadata metadataOfPlan();
  Metadata metadataInKernel(ValueRange args) const;
  RowKernel pairs(KernelBuilder &b) const;
  void writeTail(KernelBuilder &b, Value rows, Value tail, Value token);
  void append(KernelBuilder &b, ValueRange args, int64_t count);
  Appended loadRow(KernelBuilder &b, ValueRange args, RowKernel &head, Value token);
  void find(KernelBuilder &b, const Pool &pool, Value slot, Appended &row);
  void storeRow(KernelBuilder &b, ValueRange args, RowKernel &head, Value gamma,
                const Appended &row);
  void storeKey(KernelBuilder &b, ValueRange args, const Appended &row);
  void storeInCache(KernelBuilder &b, const Appended &row, RowKernel &columns, Value values,
                    const Pool &pool, mlac::cache::Part part, int64_t column = 0);
  void normaliseGroups(KernelBuilder &b, ValueRange args, GroupColumns &groups, Value factor,
                       GroupColumns::Tiles &x);
  void appendCodes(KernelBuilder &b, ValueRange args, const Pool &pool, Value factor,
                   const Appended &row);
  bool rotates() const { return target.append.getRope().has_value(); }
  int64_t half() const { return target.append.getRopeColumns() / 2; }
  /// Columns from the first element of a pair to the second.
  int64_t distance() const { return isInterleaved() ? 1 : half(); }
  bool isInterleaved() const {
    return target.append.getRope()->getOrder() == mla::RopeOrder::Interleaved;
  }

  StepLowering &step;
  const RowSource &source;
  const std::optional<RmsNorm> &norm;
  mutable LatentTarget target; // accessors of ops are not const
  Value rows;
  Metadata metadata; // of the launch that args() was last called for
  int64_t width;     // of the norm, which the tail is behind
};
} // namespace

SmallVector<Value> LatentRow::args() {
  if (!norm)
    return {source.rows.buffer, target.tail->buffer};
  SmallVector<Value> args = {source.rows.buffer, norm->gamma.buffer};
  if (!target.append) {
    args.push_back(norm->output.buffer);
    if (target.tail)
      args.push_back(target.tail->buffer);
    if (norm->output.scales)
      args.push_back(norm->output.scales->buffer);
    return args;
  }
  llvm::append_range(args, Pool::ofPlan(step, target.append.getCache()).args());
  metadata = metadataOfPlan();
  for (Value *value : metadata.given())
    args.push_back(*value);
  return args;
}

LatentRow::Metadata LatentRow::metadataOfPlan() {
  Metadata plan;
  plan.slots =
      step.poolMetadata(target.append.getCache(), target.append.getBatch(), "slot_mapping");
  if (rotates()) {
    plan.positions = step.metadata("positions");
    plan.table = step.lookup(target.append.getTable()).buffer;
  }
  if (target.latent)
    plan.latents = target.latent->buffer;
  if (target.ropeKey)
    plan.keys = target.ropeKey->buffer;
  plan.rows = rows;
  return plan;
}

LatentRow::Metadata LatentRow::metadataInKernel(ValueRange args) const {
  Metadata inner = metadata;
  SmallVector<Value *, 6> given = inner.given();
  for (auto [value, arg] : llvm::zip_equal(given, args.take_back(given.size())))
    *value = arg;
  return inner;
}

/// Columns of the row of `token` from `column` on, as `row` lays them out.
Value LatentRow::load(KernelBuilder &b, RowKernel &row, Value buffer, Value token, int64_t column) {
  Value base = source.base(b, token), total;
  for (int64_t part = 0; part < source.parts; ++part) {
    Value next = row.load(buffer, base, source.rows.offset + part * source.partStride + column);
    total = total ? b.addf(total, next) : next;
  }
  return total;
}

/// Of the columns behind the norm's. A sum of parts is rounded, as the product's result is
/// (mla.md section 3.3), so that what is rotated here is what a rotation of its own reads.
Value LatentRow::loadTail(KernelBuilder &b, RowKernel &row, Value buffer, Value token,
                          int64_t behind) {
  Value tail = load(b, row, buffer, token, width + behind);
  return source.parts > 1 ? b.widen(b.narrow(tail, norm->gamma.element())) : tail;
}

Value LatentRow::normalise(KernelBuilder &b, RowKernel &row, Value x, Value gamma) {
  Value squares = row.sum(b.mulf(x, x));
  return b.mulf(b.mulf(x, row.broadcast(rmsScale(b, squares, width, *norm))), gamma);
}

/// Of a rotation; else of all columns of the tail.
RowKernel LatentRow::pairs(KernelBuilder &b) const {
  if (!rotates())
    return RowKernel(step, b, target.append.getRopeColumns());
  return RowKernel(step, b, half(), isInterleaved() ? 2 : 1);
}

/// The row's place in the cache; somewhere, if it has none.
void LatentRow::find(KernelBuilder &b, const Pool &pool, Value slot, Appended &row) {
  Pool::Slot place = pool.findSlot(b, slot);
  row.isInside = place.isInside;
  row.latentBase = pool.row(b, mlac::cache::Part::Latent, place.page, place.inPage);
  if (target.append.getRopeColumns() != 0)
    row.ropeBase = pool.row(b, mlac::cache::Part::Rope, place.page, place.inPage);
  if (pool.type.hasGroupedLatents())
    row.scaleBase = pool.row(b, mlac::cache::Part::Scale, place.page, place.inPage);
}

LatentRow::Appended LatentRow::loadRow(KernelBuilder &b, ValueRange args, RowKernel &head,
                                       Value token) {
  Pool pool = Pool::ofPlan(step, target.append.getCache()).inKernel(args.drop_front(2));
  Metadata inner = metadataInKernel(args);
  Appended row;
  row.token = token;
  find(b, pool, b.loadScalar(inner.slots, token), row);
  Value angle;
  if (rotates())
    angle = b.mul(b.loadScalar(inner.positions, token), 2 * half());
  row.latent = load(b, head, args[0], token, 0);
  if (pool.type.hasLayerScale()) // once for what all rows store
    row.layerScale = pool.loadLayerScale(b, mlac::cache::Part::Latent);
  if (target.append.getRopeColumns() == 0)
    return row;
  RowKernel pairs = this->pairs(b);
  row.first = loadTail(b, pairs, args[0], token);
  if (!rotates())
    return row;
  RowKernel angles(step, b, half());
  row.second = loadTail(b, pairs, args[0], token, distance());
  row.cos = angles.load(inner.table, angle, 0);
  row.sin = angles.load(inner.table, angle, half());
  return row;
}

/// As the pool has all of a row: as it is, or codes by the layer's scale.
void LatentRow::storeInCache(KernelBuilder &b, const Appended &row, RowKernel &columns,
                             Value values, const Pool &pool, mlac::cache::Part part,
                             int64_t column) {
  if (row.layerScale)
    values = toLayerCodes(b, values, pool.type.getElement(), row.layerScale);
  Value base = part == mlac::cache::Part::Rope ? row.ropeBase : row.latentBase;
  columns.storeIf(row.isInside, values, pool.find(part).memory->buffer, base, column);
}

/// The rope key, as it is or rotated, to the cache, and to its tensor where it is kept.
void LatentRow::storeKey(KernelBuilder &b, ValueRange args, const Appended &row) {
  if (!row.first)
    return;
  Pool pool = Pool::ofPlan(step, target.append.getCache()).inKernel(args.drop_front(2));
  Value keys = metadataInKernel(args).keys;
  RowKernel pairs = this->pairs(b);
  auto store = [&](Value values, int64_t column) {
    storeInCache(b, row, pairs, values, pool, mlac::cache::Part::Rope, column);
    if (keys)
      pairs.store(values, keys, b.mul(row.token, target.ropeKey->strides[0]),
                  target.ropeKey->offset + column);
  };
  if (!rotates())
    return store(row.first, 0);
  store(b.subf(b.mulf(row.first, row.cos), b.mulf(row.second, row.sin)), 0);
  store(b.addf(b.mulf(row.second, row.cos), b.mulf(row.first, row.sin)), distance());
}

void LatentRow::storeRow(KernelBuilder &b, ValueRange args, RowKernel &head, Value gamma,
                         const Appended &row) {
  using mlac::cache::Part;
  Pool pool = Pool::ofPlan(step, target.append.getCache()).inKernel(args.drop_front(2));
  storeKey(b, args, row);
  Value x = row.latent, factor = rmsScale(b, head.sum(b.mulf(x, x)), width, *norm);
  Value y = b.mulf(b.mulf(x, head.broadcast(factor)), gamma);
  if (target.latent)
    head.store(y, metadataInKernel(args).latents, b.mul(row.token, target.latent->strides[0]),
               target.latent->offset);
  if (pool.type.hasGroupedLatents())
    return appendCodes(b, args, pool, factor, row);
  storeInCache(b, row, head, y, pool, Part::Latent);
}

/// As rows of the pool's type are coded, which they are rounded to first; read once more, in
/// groups.
void LatentRow::appendCodes(KernelBuilder &b, ValueRange args, const Pool &pool, Value factor,
                            const Appended &row) {
  using mlac::cache::Part;
  const mlac::cache::Format &format = pool.type.getLayout();
  GroupColumns groups(step, b, width, format.scaleGroup);
  GroupColumns::Tiles y = loadGroups(groups, b, args[0], row.token);
  normaliseGroups(b, args, groups, factor, y);
  for (Value &tile : y)
    tile = b.widen(b.narrow(tile, pool.type.getElement()));
  mlac::cache::ScaleRule rule = format.rule;
  rule.isPowerOfTwo = pool.type.getScaleRule() == mla::ScaleRule::PowerOfTwo;
  Value scales = scalesOfLargest(b, rule, groups.largest(y));
  for (Value &tile : y)
    tile = divideToCodes(b, tile, scales);
  groups.store(row.isInside, y, pool.find(Part::Latent).memory->buffer, row.latentBase, 0);
  groups.storeOfGroups(row.isInside, scales, pool.find(Part::Scale).memory->buffer, row.scaleBase,
                       /*apart=*/1);
}

/// Behind the last row the last one again, with the same result.
void LatentRow::append(KernelBuilder &b, ValueRange args, int64_t count) {
  RowKernel head(step, b, width);
  Value gamma = head.load(args[1], b.index(0), norm->gamma.offset);
  Value begin = b.mul(b.programId(0), count), last = b.sub(args.back(), b.index(1));
  SmallVector<Appended> loaded;
  for (int64_t i = 0; i < count; ++i) {
    Value token = count == 1 ? begin : b.minimum(b.add(begin, i), last);
    loaded.push_back(loadRow(b, args, head, token));
  }
  for (const Appended &row : loaded)
    storeRow(b, args, head, gamma, row);
}

void LatentRow::writeTail(KernelBuilder &b, Value rows, Value tail, Value token) {
  RowKernel rest(step, b, target.tail->size(1));
  rest.store(load(b, rest, rows, token, width), tail, b.mul(token, target.tail->strides[0]),
             target.tail->offset);
}

void LatentRow::write(KernelBuilder &b, ValueRange args, int64_t count) {
  if (target.append)
    return append(b, args, count);
  Value token = b.programId(0);
  if (!norm)
    return writeTail(b, args[0], args[1], token);
  if (target.tail)
    writeTail(b, args[0], args[3], token);
  if (norm->output.scales)
    return storeCodes(b, args, token);
  RowKernel head(step, b, width);
  Value gamma = head.load(args[1], b.index(0), norm->gamma.offset);
  Value x = load(b, head, args[0], token, 0);
  head.store(normalise(b, head, x, gamma), args[2], b.mul(token, norm->output.strides[0]),
             norm->output.offset);
}

GroupColumns::Tiles LatentRow::loadGroups(GroupColumns &groups, KernelBuilder &b, Value buffer,
                                          Value token) {
  Value base = source.base(b, token);
  GroupColumns::Tiles total;
  for (int64_t part = 0; part < source.parts; ++part) {
    auto next = groups.load(buffer, base, source.rows.offset + part * source.partStride);
    for (auto [number, tile] : llvm::enumerate(next))
      part == 0 ? total.push_back(tile) : void(total[number] = b.addf(total[number], tile));
  }
  return total;
}

void LatentRow::normaliseGroups(KernelBuilder &b, ValueRange args, GroupColumns &groups,
                                Value factor, GroupColumns::Tiles &x) {
  GroupColumns::Tiles gamma = groups.load(args[1], b.index(0), norm->gamma.offset);
  for (auto [tile, weight] : llvm::zip_equal(x, gamma))
    tile = b.mulf(b.mulf(tile, groups.broadcast(factor)), weight);
}

void LatentRow::storeCodes(KernelBuilder &b, ValueRange args, Value token) {
  const CodeScales &scales = *norm->output.scales;
  GroupColumns groups(step, b, width, scales.columns);
  GroupColumns::Tiles y = loadGroups(groups, b, args[0], token);
  auto squares = llvm::map_to_vector(y, [&](Value tile) { return b.mulf(tile, tile); });
  normaliseGroups(b, args, groups, rmsScale(b, groups.sum(squares), width, *norm), y);
  Value ofGroups = scalesOfLargest(b, kActivationRule, groups.largest(y));
  for (Value &tile : y)
    tile = divideToCodes(b, tile, ofGroups);
  groups.storeOfGroups(/*condition=*/{}, ofGroups, args.back(), scales.place(b, token),
                       scales.groupStride());
  groups.store(/*condition=*/{}, y, args[2], b.mul(token, norm->output.strides[0]),
               norm->output.offset);
}

std::string LatentRow::name() {
  if (!norm)
    return llvm::formatv("sum_{0}", target.tail->size(1)).str();
  StringRef what = target.latent      ? "append_kept"
                   : target.append    ? "append"
                   : source.parts > 1 ? "sum_rms_norm"
                                      : "rms_norm_row";
  bool isCoded = !target.append && norm->output.scales;
  return llvm::formatv("{0}_{1}{2}", what, width, isCoded ? "_codes" : "").str();
}

/// One kind of rows, so many of which a program takes.
static void launchAlone(StepLowering &step, Value rows, LatentRow &kernel, int64_t rowsTogether) {
  Value one = step.constant(1);
  std::string name = kernel.name();
  if (rowsTogether > 1)
    name += llvm::formatv("_rows_{0}", rowsTogether).str();
  step.launch(
      name, {step.ceilDiv(rows, rowsTogether), one, one}, kernel.args(),
      [&](KernelBuilder &b, ValueRange inner) { kernel.write(b, inner, rowsTogether); },
      step.chained());
}

/// The kind of rows that the program's number says.
static void writeChosen(KernelBuilder &b, MutableArrayRef<LatentRow> kernels, ValueRange args,
                        ArrayRef<size_t> counts, int64_t number = 0) {
  auto write = [&] { kernels.front().write(b, args.take_front(counts.front())); };
  if (kernels.size() == 1)
    return write();
  b.ifThenElse(b.isBelow(b.programId(1), b.index(number + 1)), write, [&] {
    writeChosen(b, kernels.drop_front(), args.drop_front(counts.front()), counts.drop_front(),
                number + 1);
  });
}

/// A program for each row and kind.
static void launchTogether(StepLowering &step, Value rows, MutableArrayRef<LatentRow> kernels) {
  SmallVector<Value> args;
  SmallVector<size_t> counts;
  SmallVector<std::string> names;
  for (LatentRow &kernel : kernels) {
    SmallVector<Value> own = kernel.args();
    counts.push_back(own.size());
    args.append(own);
    names.push_back(kernel.name());
  }
  auto kinds = static_cast<int64_t>(kernels.size());
  step.launch(
      llvm::join(names, "_"), {rows, step.constant(kinds), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { writeChosen(b, kernels, inner, counts); },
      step.chained());
}

void mlac::mla_to_tile::emitLatentRows(StepLowering &step, Value rows,
                                       ArrayRef<LatentRows> latents) {
  SmallVector<LatentRow, 0> kernels;
  kernels.reserve(latents.size());
  for (const LatentRows &latent : latents)
    kernels.emplace_back(step, latent, rows);
  auto emitFew = [&] {
    kernels.size() == 1 ? launchAlone(step, rows, kernels.front(), 1)
                        : launchTogether(step, rows, kernels);
  };
  if (llvm::none_of(kernels, [](LatentRow &kernel) { return kernel.canWriteMany(); }))
    return emitFew();
  const mlac::Tuning &tuning = step.machine.tuning;
  step.versionByRows(rows, tuning.manyLatentRows, emitFew, [&] {
    for (LatentRow &kernel : kernels)
      launchAlone(step, rows, kernel, kernel.canWriteMany() ? tuning.latentRowsTogether : 1);
  });
}
