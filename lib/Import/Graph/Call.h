//===- Call.h - a node of a recorded graph being evaluated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_CALL_H
#define MLA_LIB_IMPORT_GRAPH_CALL_H

#include "Evaluate.h"

#include "llvm/ADT/StringSet.h"

namespace mlac::graph {

/// What a node gives, a cell for each result; none: it is not understood, `reason` says why.
using Results = std::optional<llvm::SmallVector<Cell, 1>>;

/// The arguments of one node, by the names of its operator's schema.
class Call {
public:
  Call(Evaluator &evaluator, mlir::graph::NodeOp node)
      : evaluator(evaluator), expressions(evaluator.expressions), node(node) {}

  /// By the operator's name, without overload: "mul" of "aten.mul.Tensor".
  Results evaluate(llvm::StringRef name);

  std::string reason;

private:
  /// Why the numbers 0, 1, 2, ... of the sequences of a batch are opaque.
  static constexpr llvm::StringLiteral kOfSequences =
      "its numbers are those of the sequences of a batch";

  // Arguments.
  mlir::Attribute get(llvm::StringRef name) {
    asked.insert(name);
    return node.getArguments().get(name);
  }
  /// Arguments that do not change numbers: types, devices, layouts.
  void ignore(llvm::ArrayRef<llvm::StringLiteral> names) { asked.insert_range(names); }
  /// An argument that nobody asked for, or "": the operator has another schema then.
  llvm::StringRef findUnasked();
  Results evaluateKnown(llvm::StringRef name, bool &isKnown);
  bool has(llvm::StringRef name);
  Cell *cell(llvm::StringRef name) { return cell(get(name)); }
  Cell *cell(mlir::Attribute argument);
  /// Null, with a reason, where it is not followed.
  Tensor *tensor(llvm::StringRef name) { return tensor(get(name), name); }
  Tensor *tensor(mlir::Attribute argument, llvm::StringRef name);
  bool isEmpty(mlir::Attribute argument);
  /// Those of a list that have numbers.
  std::optional<std::vector<Tensor>> tensors(llvm::StringRef name);
  std::optional<int64_t> integer(llvm::StringRef name, std::optional<int64_t> missing = {});
  std::optional<llvm::SmallVector<int64_t>> integers(llvm::StringRef name);
  std::optional<Size> size(mlir::Attribute argument);
  std::optional<llvm::SmallVector<Size>> sizes(llvm::StringRef name);
  std::optional<double> number(llvm::StringRef name);
  bool flag(llvm::StringRef name, bool missing);
  /// A dimension of `rank`, counted from the back where negative.
  std::optional<int64_t> dimension(llvm::StringRef name, int64_t rank,
                                   std::optional<int64_t> missing = {});

  Results fail(const llvm::Twine &why) {
    if (reason.empty())
      reason = why.str();
    return std::nullopt;
  }
  static Results give(Cell cell) { return llvm::SmallVector<Cell, 1>{std::move(cell)}; }
  Results give(std::optional<Tensor> result, llvm::StringRef why) {
    return result ? give(Cell(std::move(*result))) : fail(why);
  }

  // CallShapes.cpp: what moves numbers.
  Results evaluateShape(llvm::StringRef name, bool &isKnown);
  Results viewAs(const Tensor &self, llvm::ArrayRef<Size> sizes);
  Results flatten();
  Results unflatten();
  Results insertDim();
  Results removeDim();
  Results transpose(bool areLast);
  Results permuteDims();
  Results expand();
  Results repeat();
  Results sliceDim();
  Results firstToken(int64_t dim);
  Results selectIndex();
  Results split();
  Results chunk();
  Results unbind();
  Results joinTensors(bool isStack);
  Results pairToComplex(bool isToComplex);
  Results polar();
  Results readSize();
  Results multiplySizes();
  Results alias(llvm::StringRef name);
  Results copy();
  std::optional<FreshSlice> sliceRange(const Size &size, int64_t rank);

  // CallMemory.cpp: what makes memory and writes to it.
  Results evaluateMemory(llvm::StringRef name, bool &isKnown);
  Results makeFresh(llvm::StringRef sizesName, Expr fill);
  Results makePositions();
  Results fillLike(double value);
  Results write(Cell &self, const Tensor &source);
  Results scatterSlice();
  /// Says which dimensions of fresh memory are what, by what is written to it.
  bool settle(Cell &self, const Tensor &source);

  // CallMath.cpp: what computes.
  Results evaluateMath(llvm::StringRef name, bool &isKnown);
  Results unary(llvm::function_ref<Expr(Expr)> compute);
  Results binary(llvm::function_ref<Expr(Expr, Expr)> compute);
  /// [.., tokens, 1] with [.., 1, tokens]: the second's tokens become keys.
  bool makeKeys(Tensor &left, Tensor &right, Dims &dims);
  /// [.., tokens, keys] with [.., 1, tokens]: the row's tokens are keys, too.
  void fitKeys(const Tensor &matrix, Tensor &row);
  Results combine(const Tensor &first, const Tensor &second,
                  llvm::function_ref<Expr(Expr, Expr)> compute);
  bool addsNumbers();
  Results power();
  Results mean();
  Results rmsNorm();
  Results where();
  Results anyKey(bool isAll);
  std::vector<Expr> normalise(llvm::ArrayRef<Expr> row, Expr epsilon);

  // CallMasks.cpp: which keys a query sees, and scores beside theirs.
  Results evaluateMask(llvm::StringRef name, bool &isKnown);
  Results comparePositions(llvm::StringRef name);
  Results combineBands(bool isOr);
  Results keepTriangle(bool isLower);
  Results fillMasked();
  bool fillFresh(Cell &self, const Tensor &mask);
  std::optional<Expr> choose(Expr condition, Expr yes, Expr no);
  Results largestScore(bool hasIndices);
  std::optional<Expr> makeMask(Expr condition, double depth = kMasked);
  Results appendSink(const Tensor &scores, const Tensor &sink);
  Results dropSink(const Tensor &self, int64_t dim);

  // CallWeights.cpp: a softmax by its parts, and what is done to weights.
  Results evaluateWeights(llvm::StringRef name, bool &isKnown);
  Results overKeys(llvm::function_ref<Expr(Expr)> compute);
  Results clampBelow();
  Results replaceNaN();

  // CallPacked.cpp: which tokens of a row are of one sequence.
  Results evaluatePacked(llvm::StringRef name, bool &isKnown);
  bool arePositions(Expr x) const;
  bool isOfSequences(Expr x) const;
  bool areRowsOf(const Tensor &self, llvm::ArrayRef<Tensor> indices) const;
  Results difference();
  Results runningSum();
  Results gather();
  Results truthOf(const Cell &self);
  std::optional<Expr> getFill(const Cell &self, size_t &rank) const;
  Results compareConstants(llvm::StringRef name);

  // CallProducts.cpp: projections and attention.
  Results evaluateProduct(llvm::StringRef name, bool &isKnown);
  Results project(const Tensor &rows, const Cell &weight, std::optional<uint32_t> bias);
  Results linear();
  Results product(llvm::StringRef left, llvm::StringRef right);
  Results addProduct();
  Results addScores();
  Results multiply(const Tensor &left, const Tensor &right);
  std::optional<Tensor> score(const Tensor &query, const Tensor &key);
  bool areWeights(Expr x);
  std::optional<Tensor> weigh(const Tensor &weights, const Tensor &value);
  std::optional<Tensor> outer(const Tensor &left, const Tensor &right);
  Results softmax();
  Results attention();
  std::optional<Tensor> addMask(const Tensor &scores);
  Results repeatHeads();
  std::optional<uint32_t> vectorArgument(llvm::StringRef name);

  Evaluator &evaluator;
  Expressions &expressions;
  mlir::graph::NodeOp node;
  llvm::StringSet<> asked;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_CALL_H
