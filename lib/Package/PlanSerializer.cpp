//===- PlanSerializer.cpp - tile.plan to package function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/PlanSerializer.h"

#include "mla/Dialect/Tile/IR/PlanAttrs.h"
#include "mla/Package/WorkspaceLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlac;
using package::ExprOp;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

std::optional<package::DataType> mlac::getPackageDataType(Type type) {
  if (type.isBF16())
    return package::DataType::BF16;
  if (type.isF16())
    return package::DataType::F16;
  if (type.isF32())
    return package::DataType::F32;
  if (isa<Float8E4M3FNType>(type))
    return package::DataType::E4M3;
  if (type.isInteger(32))
    return package::DataType::I32;
  if (type.isInteger(64))
    return package::DataType::I64;
  if (type.isInteger(8))
    return package::DataType::U8;
  return std::nullopt;
}

int64_t mlac::getDataTypeBytes(package::DataType type) {
  switch (type) {
  case package::DataType::BF16:
  case package::DataType::F16:
    return 2;
  case package::DataType::F32:
  case package::DataType::I32:
    return 4;
  case package::DataType::I64:
    return 8;
  case package::DataType::E4M3:
  case package::DataType::U8:
    return 1;
  }
  return 0;
}

static package::BufferKind getPackageKind(tile::BufferKind kind) {
  switch (kind) {
  case tile::BufferKind::Input:
    return package::BufferKind::Input;
  case tile::BufferKind::Output:
    return package::BufferKind::Output;
  case tile::BufferKind::Weight:
    return package::BufferKind::Weight;
  case tile::BufferKind::Derived:
    return package::BufferKind::Derived;
  case tile::BufferKind::Cache:
    return package::BufferKind::Cache;
  case tile::BufferKind::Metadata:
    return package::BufferKind::Metadata;
  case tile::BufferKind::RopeTable:
    return package::BufferKind::RopeTable;
  case tile::BufferKind::CacheScale:
    return package::BufferKind::CacheScale;
  }
  llvm_unreachable("unknown buffer kind");
}

//===----------------------------------------------------------------------===//
// Serializer
//===----------------------------------------------------------------------===//

namespace {
class PlanSerializer {
public:
  PlanSerializer(tile::PlanOp plan, const KernelIndex &kernels) : plan(plan), kernels(kernels) {}

  FailureOr<std::unique_ptr<package::FunctionT>> run();

private:
  using Steps = std::vector<std::unique_ptr<package::StepT>>;

  LogicalResult convertWork(tile::WorkOp work);
  LogicalResult convertSharedPrefix(tile::SharedPrefixOp prefix);
  LogicalResult convertPrompts(tile::PromptsOp prompts);
  LogicalResult convertBlock(Block &block, Steps &steps);
  LogicalResult convertLaunch(tile::LaunchOp launch, Steps &steps);
  LogicalResult convertLoop(scf::ForOp loop, Steps &steps);
  LogicalResult convertBranch(scf::IfOp branch, Steps &steps);
  LogicalResult convertFork(tile::ForkOp fork, Steps &steps);
  FailureOr<package::Arg> convertArgument(tile::LaunchOp launch, Value value);

  FailureOr<uint32_t> getBuffer(tile::LaunchOp launch, Value value);
  FailureOr<uint32_t> addNamedBuffer(tile::BufferOp op);
  FailureOr<uint32_t> addWorkspace(tile::WorkspaceOp op);
  FailureOr<uint32_t> addBuffer(Operation *op, package::BufferKind kind, StringRef name,
                                Type element, ExprId elements);

  FailureOr<ExprId> getExpression(Value value);
  FailureOr<ExprId> convertConstant(arith::ConstantOp op);
  FailureOr<ExprId> convertArith(Operation *op);
  FailureOr<ExprId> binary(Operation *op, ExprOp kind);
  FailureOr<ExprId> fold(Operation *op, std::optional<ExprId> result);

  void numberOperations();
  WorkspaceRange getLiveRange(tile::WorkspaceOp op, ExprId bytes);
  LogicalResult placeWorkspaces();

  tile::PlanOp plan;
  const KernelIndex &kernels;
  ExpressionTable table;
  std::unique_ptr<package::FunctionT> function = std::make_unique<package::FunctionT>();
  DenseMap<Value, ExprId> expressions;
  DenseMap<Value, uint32_t> buffers;
  SmallVector<std::pair<tile::WorkspaceOp, ExprId>> workspaces; // with bytes
  DenseMap<Operation *, int64_t> positions;                     // pre-order
  int64_t loopDepth = 0;
};
} // namespace

FailureOr<std::unique_ptr<package::FunctionT>> PlanSerializer::run() {
  function->name = plan.getSymName().str();
  int64_t maxQueryLen = plan.getMaxQueryLen();
  if (maxQueryLen < 0 || maxQueryLen > std::numeric_limits<uint32_t>::max())
    return plan.emitOpError("expected max_query_len in [0, 2^32), got ") << maxQueryLen;
  function->max_query_len = maxQueryLen;
  int64_t threshold = tile::getDecodeThreshold(plan);
  if (threshold > std::numeric_limits<uint32_t>::max())
    return plan.emitOpError("expected ")
           << tile::kDecodeThresholdAttr << " below 2^32, got " << threshold;
  function->decode_threshold = threshold;
  if (auto whole = plan->getAttrOfType<StringAttr>(tile::kDecodesOfAttr))
    function->decodes_of = whole.str();
  function->optional_chunks = plan->hasAttr(tile::kOptionalChunksAttr);

  for (auto work : plan.getBody().getOps<tile::WorkOp>())
    if (failed(convertWork(work)))
      return failure();
  for (auto prefix : plan.getBody().getOps<tile::SharedPrefixOp>())
    if (failed(convertSharedPrefix(prefix)))
      return failure();
  for (auto prompts : plan.getBody().getOps<tile::PromptsOp>())
    if (failed(convertPrompts(prompts)))
      return failure();
  numberOperations();
  if (failed(convertBlock(plan.getBody().front(), function->steps)) || failed(placeWorkspaces()))
    return failure();
  function->dims = table.dimNames().vec();
  function->exprs = table.nodes().vec();
  return std::move(function);
}

LogicalResult PlanSerializer::convertWork(tile::WorkOp op) {
  for (int64_t value : {op.getKeysPerBlock(), op.getRowsPerToken(), op.getRowsPerTile(),
                        op.getFixedBlocks(), op.getWindow()})
    if (value > std::numeric_limits<uint32_t>::max())
      return op.emitOpError("expected numbers below 2^32, got ") << value;
  function->work = std::make_unique<package::WorkT>();
  function->work->keys_per_block = op.getKeysPerBlock();
  function->work->rows_per_token = op.getRowsPerToken();
  function->work->rows_per_tile = op.getRowsPerTile();
  function->work->item_cost = op.getItemCost().convertToDouble();
  function->work->merge_cost = op.getMergeCost().convertToDouble();
  function->work->partial_cost = op.getPartialCost().convertToDouble();
  function->work->fixed_blocks = op.getFixedBlocks();
  for (int64_t value : op.getMergeForms().value_or(ArrayRef<int64_t>()))
    function->work->merge_forms.push_back(
        static_cast<uint32_t>(std::min<int64_t>(value, std::numeric_limits<uint32_t>::max())));
  function->work->merge_programs = op.getMergePrograms().value_or(0);
  function->work->window = op.getWindow();
  function->work->runs_per_token = op.getRunsPerToken();
  return success();
}

LogicalResult PlanSerializer::convertSharedPrefix(tile::SharedPrefixOp op) {
  FailureOr<ExprId> tokens = getExpression(op.getTokens());
  if (failed(tokens))
    return failure();
  function->shared_prefix = std::make_unique<package::SharedPrefixT>();
  function->shared_prefix->tokens = *tokens;
  return success();
}

LogicalResult PlanSerializer::convertPrompts(tile::PromptsOp op) {
  FailureOr<ExprId> pays = getExpression(op.getPays());
  if (failed(pays))
    return failure();
  function->prompts = std::make_unique<package::PromptsT>();
  function->prompts->above = op.getAbove();
  function->prompts->pays = *pays;
  function->prompts->items_per_token = op.getItemsPerToken();
  function->prompts->tokens_per_item = op.getTokensPerItem();
  function->prompts->keys_per_block = op.getKeysPerBlock();
  function->prompts->item_cost = op.getItemCost().convertToDouble();
  function->prompts->merge_cost = op.getMergeCost().convertToDouble();
  function->prompts->partial_cost = op.getPartialCost().convertToDouble();
  function->prompts->window = op.getWindow();
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Only launches, loops and branches are steps; values follow on demand.
LogicalResult PlanSerializer::convertBlock(Block &block, Steps &steps) {
  for (Operation &op : block) {
    LogicalResult result = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                               .Case([&](tile::LaunchOp op) { return convertLaunch(op, steps); })
                               .Case([&](scf::ForOp op) { return convertLoop(op, steps); })
                               .Case([&](scf::IfOp op) { return convertBranch(op, steps); })
                               .Case([&](tile::ForkOp op) { return convertFork(op, steps); })
                               .Default([](Operation *) { return success(); });
    if (failed(result))
      return failure();
  }
  return success();
}

static std::string getLabel(Operation *op) {
  auto label = op->getAttrOfType<StringAttr>("label");
  return label ? label.str() : std::string();
}

LogicalResult PlanSerializer::convertLaunch(tile::LaunchOp op, Steps &steps) {
  auto kernel = kernels.find(op.getKernel());
  if (kernel == kernels.end())
    return op.emitOpError("expected a compiled kernel, got ") << op.getKernelAttr();
  auto launch = std::make_unique<package::LaunchT>();
  launch->kernel = kernel->second;
  launch->label = getLabel(op);
  launch->dependent = op.getDependent();
  for (Value size : {op.getGridX(), op.getGridY(), op.getGridZ()}) {
    FailureOr<ExprId> expression = getExpression(size);
    if (failed(expression))
      return failure();
    launch->grid.push_back(*expression);
  }
  for (Value value : op.getArgs()) {
    FailureOr<package::Arg> argument = convertArgument(op, value);
    if (failed(argument))
      return failure();
    launch->args.push_back(*argument);
  }
  steps.push_back(std::make_unique<package::StepT>());
  steps.back()->launch = std::move(launch);
  return success();
}

FailureOr<package::Arg> PlanSerializer::convertArgument(tile::LaunchOp launch, Value value) {
  if (isa<MemRefType>(value.getType())) {
    FailureOr<uint32_t> buffer = getBuffer(launch, value);
    if (failed(buffer))
      return failure();
    return package::Arg(package::ArgKind::Buffer, *buffer, 0, 0.0f);
  }
  if (value.getType().isF32()) {
    FloatAttr constant;
    if (!matchPattern(value, m_Constant(&constant)))
      return launch.emitOpError("expected f32 arguments to be constants, got ") << value;
    return package::Arg(package::ArgKind::F32, 0, 0, constant.getValue().convertToFloat());
  }
  FailureOr<ExprId> expression = getExpression(value);
  if (failed(expression))
    return failure();
  return package::Arg(package::ArgKind::Index, 0, *expression, 0.0f);
}

LogicalResult PlanSerializer::convertLoop(scf::ForOp op, Steps &steps) {
  if (getConstantIntValue(op.getLowerBound()) != 0 || getConstantIntValue(op.getStep()) != 1)
    return op.emitOpError("expected a loop from 0 with step 1 in a tile.plan");
  FailureOr<ExprId> count = getExpression(op.getUpperBound());
  if (failed(count))
    return failure();
  auto loop = std::make_unique<package::LoopT>();
  loop->count = *count;
  expressions[op.getInductionVar()] = table.loopVariable(loopDepth);
  ++loopDepth;
  LogicalResult body = convertBlock(*op.getBody(), loop->body);
  --loopDepth;
  if (failed(body))
    return failure();
  if (loop->body.empty())
    return success();
  steps.push_back(std::make_unique<package::StepT>());
  steps.back()->loop = std::move(loop);
  return success();
}

LogicalResult PlanSerializer::convertBranch(scf::IfOp op, Steps &steps) {
  FailureOr<ExprId> condition = getExpression(op.getCondition());
  if (failed(condition))
    return failure();
  // A condition that is known leaves one side, whose steps run always.
  if (std::optional<int64_t> known = table.constantValue(*condition)) {
    Region &taken = *known != 0 ? op.getThenRegion() : op.getElseRegion();
    return taken.empty() ? success() : convertBlock(taken.front(), steps);
  }
  auto branch = std::make_unique<package::BranchT>();
  branch->condition = *condition;
  branch->label = getLabel(op);
  if (failed(convertBlock(op.getThenRegion().front(), branch->then_steps)))
    return failure();
  if (!op.getElseRegion().empty() &&
      failed(convertBlock(op.getElseRegion().front(), branch->else_steps)))
    return failure();
  steps.push_back(std::make_unique<package::StepT>());
  steps.back()->branch = std::move(branch);
  return success();
}

/// Sides without a condition that may hold are steps like others.
LogicalResult PlanSerializer::convertFork(tile::ForkOp op, Steps &steps) {
  FailureOr<ExprId> condition = getExpression(op.getCondition());
  if (failed(condition))
    return failure();
  if (table.constantValue(*condition) == 0)
    return failure(failed(convertBlock(op.getMain().front(), steps)) ||
                   failed(convertBlock(op.getSide().front(), steps)));
  auto fork = std::make_unique<package::ForkT>();
  fork->condition = *condition;
  if (failed(convertBlock(op.getMain().front(), fork->main)) ||
      failed(convertBlock(op.getSide().front(), fork->side)))
    return failure();
  steps.push_back(std::make_unique<package::StepT>());
  steps.back()->fork = std::move(fork);
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

FailureOr<uint32_t> PlanSerializer::getBuffer(tile::LaunchOp launch, Value value) {
  if (auto known = buffers.find(value); known != buffers.end())
    return known->second;
  FailureOr<uint32_t> index = failure();
  if (auto op = value.getDefiningOp<tile::BufferOp>())
    index = addNamedBuffer(op);
  else if (auto op = value.getDefiningOp<tile::WorkspaceOp>())
    index = addWorkspace(op);
  else
    launch.emitOpError("expected buffers from tile.buffer or tile.workspace, got ") << value;
  if (succeeded(index))
    buffers[value] = *index;
  return index;
}

FailureOr<uint32_t> PlanSerializer::addNamedBuffer(tile::BufferOp op) {
  package::BufferKind kind = getPackageKind(op.getKind());
  Type element = cast<MemRefType>(op.getResult().getType()).getElementType();
  for (auto [index, buffer] : llvm::enumerate(function->buffers)) {
    if (buffer->kind != kind || buffer->name != op.getName())
      continue;
    if (getPackageDataType(element) == buffer->dtype)
      return static_cast<uint32_t>(index);
    if (kind == package::BufferKind::Cache) // a pool has all types of its fields
      continue;
    return op.emitOpError("expected one element type for buffer '")
           << op.getName() << "', got " << element << " after "
           << package::EnumNameDataType(buffer->dtype);
  }
  ExprId elements = 0;
  if (auto shape = op.getShape()) {
    int64_t count = 1;
    for (int64_t size : *shape)
      if (size <= 0 || llvm::MulOverflow(count, size, count))
        return op.emitOpError("expected a shape of positive sizes whose product fits int64, got ")
               << op.getShapeAttr();
    elements = table.constant(count);
  }
  if (op.getElements()) {
    FailureOr<ExprId> touched = getExpression(op.getElements());
    if (failed(touched))
      return failure();
    elements = *touched;
  }
  return addBuffer(op, kind, op.getName(), element, elements);
}

FailureOr<uint32_t> PlanSerializer::addWorkspace(tile::WorkspaceOp op) {
  FailureOr<ExprId> elements = getExpression(op.getElements());
  if (failed(elements))
    return failure();
  if (table.dependsOnLoop(*elements))
    return op.emitOpError("expected a size that is the same in every iteration of the loop");
  Type element = cast<MemRefType>(op.getResult().getType()).getElementType();
  FailureOr<uint32_t> index = addBuffer(op, package::BufferKind::Workspace, "", element, *elements);
  if (failed(index))
    return failure();
  int64_t elementBytes = getDataTypeBytes(function->buffers[*index]->dtype);
  FailureOr<ExprId> bytes =
      fold(op, table.binary(ExprOp::Mul, *elements, table.constant(elementBytes)));
  if (failed(bytes))
    return failure();
  workspaces.emplace_back(op, *bytes);
  return index;
}

FailureOr<uint32_t> PlanSerializer::addBuffer(Operation *op, package::BufferKind kind,
                                              StringRef name, Type element, ExprId elements) {
  std::optional<package::DataType> dtype = getPackageDataType(element);
  if (!dtype)
    return op->emitOpError("expected an element type that packages know (bf16, f16, f32, "
                           "f8E4M3FN, i32, i64, i8), got ")
           << element;
  auto buffer = std::make_unique<package::BufferT>();
  buffer->name = name.str();
  buffer->kind = kind;
  buffer->dtype = *dtype;
  buffer->elements = elements;
  function->buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(function->buffers.size() - 1);
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

FailureOr<ExprId> PlanSerializer::getExpression(Value value) {
  if (auto known = expressions.find(value); known != expressions.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  FailureOr<ExprId> result = llvm::TypeSwitch<Operation *, FailureOr<ExprId>>(op)
                                 .Case([&](tile::DimOp op) { return table.dim(op.getName()); })
                                 .Case([&](arith::ConstantOp op) { return convertConstant(op); })
                                 .Default([&](Operation *op) { return convertArith(op); });
  if (succeeded(result))
    expressions[value] = *result;
  return result;
}

FailureOr<ExprId> PlanSerializer::convertConstant(arith::ConstantOp op) {
  auto value = dyn_cast<IntegerAttr>(op.getValue());
  if (!value)
    return op.emitOpError("expected an integer inside an index expression, got ") << op.getValue();
  // i1 true is 1 here, as comparisons give.
  bool isBool = value.getType().isInteger(1);
  return table.constant(isBool ? value.getValue().getZExtValue() : value.getValue().getSExtValue());
}

/// A folded node, or an error at the op when its value is undefined.
FailureOr<ExprId> PlanSerializer::fold(Operation *op, std::optional<ExprId> result) {
  if (!result)
    return op->emitOpError("divides by zero or leaves the range of int64");
  return *result;
}

FailureOr<ExprId> PlanSerializer::binary(Operation *op, ExprOp kind) {
  FailureOr<ExprId> a = getExpression(op->getOperand(0));
  if (failed(a))
    return failure();
  FailureOr<ExprId> b = getExpression(op->getOperand(1));
  if (failed(b))
    return failure();
  return fold(op, table.binary(kind, *a, *b));
}

static std::optional<ExprOp> getComparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return ExprOp::Eq;
  case arith::CmpIPredicate::ne:
    return ExprOp::Ne;
  case arith::CmpIPredicate::slt:
    return ExprOp::Lt;
  case arith::CmpIPredicate::sle:
    return ExprOp::Le;
  case arith::CmpIPredicate::sgt:
    return ExprOp::Gt;
  case arith::CmpIPredicate::sge:
    return ExprOp::Ge;
  default:
    return std::nullopt; // the package's expressions are signed
  }
}

static std::optional<ExprOp> getBinary(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<ExprOp>>(op)
      .Case([](arith::AddIOp) { return ExprOp::Add; })
      .Case([](arith::SubIOp) { return ExprOp::Sub; })
      .Case([](arith::MulIOp) { return ExprOp::Mul; })
      .Case([](arith::DivSIOp) { return ExprOp::Div; })
      .Case([](arith::CeilDivSIOp) { return ExprOp::CeilDiv; })
      .Case([](arith::RemSIOp) { return ExprOp::Rem; })
      .Case([](arith::MinSIOp) { return ExprOp::Min; })
      .Case([](arith::MaxSIOp) { return ExprOp::Max; })
      .Case([](arith::AndIOp) { return ExprOp::And; })
      .Case([](arith::OrIOp) { return ExprOp::Or; })
      .Case([](arith::XOrIOp) { return ExprOp::Xor; })
      .Case([](arith::CmpIOp op) { return getComparison(op.getPredicate()); })
      .Default([](Operation *) { return std::nullopt; });
}

FailureOr<ExprId> PlanSerializer::convertArith(Operation *op) {
  if (std::optional<ExprOp> kind = getBinary(op))
    return binary(op, *kind);
  if (isa<arith::IndexCastOp, arith::ExtUIOp>(op) && !op->getResult(0).getType().isInteger(1))
    return getExpression(op->getOperand(0));
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    FailureOr<ExprId> condition = getExpression(select.getCondition());
    FailureOr<ExprId> whenTrue = getExpression(select.getTrueValue());
    FailureOr<ExprId> whenFalse = getExpression(select.getFalseValue());
    if (failed(condition) || failed(whenTrue) || failed(whenFalse))
      return failure();
    return table.select(*condition, *whenTrue, *whenFalse);
  }
  return op->emitOpError("has no counterpart in a package's index expressions");
}

//===----------------------------------------------------------------------===//
// Workspaces
//===----------------------------------------------------------------------===//

void PlanSerializer::numberOperations() {
  int64_t next = 0;
  plan.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { positions[op] = next++; });
}

/// Position of the last op inside `op`.
static int64_t getLastPosition(Operation *op, const DenseMap<Operation *, int64_t> &positions) {
  int64_t last = positions.at(op);
  op->walk([&](Operation *inner) { last = std::max(last, positions.at(inner)); });
  return last;
}

/// A use inside a loop that does not hold the definition lives through the
/// whole loop: the next iteration may read what this one wrote. One in a side of a fork lives
/// through the fork: the other side's may come at any time.
WorkspaceRange PlanSerializer::getLiveRange(tile::WorkspaceOp op, ExprId bytes) {
  WorkspaceRange range{bytes, std::numeric_limits<int64_t>::max(), -1};
  Region *home = op->getParentRegion();
  for (Operation *user : op->getUsers()) {
    Operation *extent = user;
    for (Operation *parent = user; parent->getParentRegion() != home;) {
      parent = parent->getParentOp();
      if (isa<scf::ForOp>(parent))
        extent = parent;
    }
    if (auto fork = user->getParentOfType<tile::ForkOp>())
      extent = fork;
    range.first = std::min(range.first, positions.at(extent));
    range.last = std::max(range.last, getLastPosition(extent, positions));
  }
  return range;
}

LogicalResult PlanSerializer::placeWorkspaces() {
  SmallVector<WorkspaceRange> ranges;
  for (auto [op, bytes] : workspaces)
    ranges.push_back(getLiveRange(op, bytes));
  std::optional<WorkspaceLayout> layout = layOutWorkspace(table, ranges);
  if (!layout)
    return plan.emitOpError("has a workspace whose size leaves the range of int64");
  for (auto [workspace, offset] : llvm::zip_equal(workspaces, layout->offsets))
    function->buffers[buffers.at(workspace.first.getResult())]->byte_offset = offset;
  function->workspace_bytes = layout->totalBytes;
  return success();
}

FailureOr<std::unique_ptr<package::FunctionT>> mlac::serializePlan(tile::PlanOp plan,
                                                                   const KernelIndex &kernels) {
  return PlanSerializer(plan, kernels).run();
}
