//===- EraseUnread.cpp - what a graph no longer reads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EraseUnread.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlac::graph;
using namespace mlir;
using mlir::graph::InAttr;
using mlir::graph::NodeOp;

/// The operator without its overload: "aten.copy_" of "aten.copy_.default".
static StringRef getOperator(NodeOp node) { return node.getTarget().rsplit('.').first; }

/// What tracing saw of a tensor's type keeps nothing.
static bool isCheck(Operation *user) {
  auto node = dyn_cast<NodeOp>(user);
  return node && getOperator(node) == "aten._assert_tensor_metadata";
}

static llvm::SetVector<NodeOp> findMakers(NodeOp node) {
  llvm::SetVector<NodeOp> makers;
  for (Value operand : node.getOperands())
    if (auto maker = operand.getDefiningOp<NodeOp>())
      makers.insert(maker);
  return makers;
}

/// Each stands in `next` once, and so no erased one does.
static void eraseAllUnread(llvm::SetVector<NodeOp> next) {
  while (!next.empty()) {
    NodeOp node = next.pop_back_val();
    bool writes = getOperator(node).ends_with("_");
    if (writes || !llvm::all_of(node->getUsers(), isCheck))
      continue;
    for (Operation *check : llvm::make_early_inc_range(node->getUsers()))
      check->erase();
    llvm::SetVector<NodeOp> makers = findMakers(node);
    node->erase();
    next.insert_range(makers);
  }
}

void mlac::graph::eraseWithOperands(NodeOp node) {
  llvm::SetVector<NodeOp> next;
  next.insert(node);
  eraseAllUnread(std::move(next));
}

/// Collects what uses memory through views of it, all of which only write to it. False: something
/// reads it.
static bool collectWrites(Value memory, llvm::SetVector<Operation *> &users) {
  static const llvm::StringSet<> ofMemory = {
      "aten.slice", "aten.select", "aten.narrow",    "aten.view",   "aten.alias",  "aten.copy_",
      "aten.fill_", "aten.zero_",  "aten.transpose", "aten.detach", "aten.permute"};
  for (Operation *user : memory.getUsers()) {
    auto node = dyn_cast<NodeOp>(user);
    if (!node)
      return false;
    auto self = dyn_cast_or_null<InAttr>(node.getArguments().get("self"));
    bool isThrough = self && node.getOperands()[self.getIndex()] == memory &&
                     llvm::count(node.getOperands(), memory) == 1 &&
                     ofMemory.contains(getOperator(node));
    if (!isThrough && !isCheck(user))
      return false;
    if (users.insert(user) &&
        !llvm::all_of(user->getResults(), [&](Value view) { return collectWrites(view, users); }))
      return false;
  }
  return true;
}

/// Null: there is none.
static NodeOp findUnreadMemory(func::FuncOp function, llvm::SetVector<Operation *> &users) {
  static const llvm::StringSet<> makesMemory = {"aten.new_empty", "aten.empty", "aten.empty_like",
                                                "aten.new_zeros", "aten.zeros", "aten.zeros_like"};
  for (auto node : function.getOps<NodeOp>()) {
    users.clear();
    if (makesMemory.contains(getOperator(node)) && node->getNumResults() == 1 &&
        collectWrites(node->getResult(0), users))
      return node;
  }
  return {};
}

void mlac::graph::eraseUnreadMemory(func::FuncOp function) {
  llvm::SetVector<Operation *> users;
  while (NodeOp memory = findUnreadMemory(function, users)) {
    users.insert(memory);
    llvm::SetVector<NodeOp> makers;
    for (Operation *user : users)
      for (NodeOp maker : findMakers(cast<NodeOp>(user)))
        if (!users.contains(maker))
          makers.insert(maker);
    for (Operation *user : users) {
      user->dropAllUses();
      user->erase();
    }
    eraseAllUnread(std::move(makers));
  }
}
