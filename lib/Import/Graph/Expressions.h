//===- Expressions.h - what a graph's numbers are made of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A token's row is a vector of expressions, one for every channel of every head. Two numbers
// that are computed alike are the same expression, however the graph moved them about: views,
// transposes, slices and copies only move expressions, and sums and products have one order.
// Attention over keys stands as one expression of its query's and key's vectors, so that nothing
// depends on the number of tokens.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_EXPRESSIONS_H
#define MLA_LIB_IMPORT_GRAPH_EXPRESSIONS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/FoldingSet.h"
#include "llvm/Support/Allocator.h"

#include <compare>
#include <optional>
#include <vector>

namespace mlac::graph {

/// Number `index` of a source, which is 0 where the source is one number.
struct Expr {
  uint32_t source = 0;
  uint32_t index = 0;
  auto operator<=>(const Expr &) const = default;
};

/// A row of expressions, interned: equal numbers are equal rows.
using VectorId = uint32_t;

enum class SourceKind : uint8_t {
  Undefined, ///< memory that nothing was written to
  Argument,  ///< channel `index` of a graph's argument `a`
  Linear,    ///< row `index` of the weight `b` times the vector `a`, plus the bias c - 1
  Opaque,    ///< number `index` of what a node that is not understood gives
  Constant,
  Sum,         ///< of the terms
  Product,     ///< of `number` and the factors
  Apply,       ///< the function `a` of one operand
  Mean,        ///< of the vector `a`
  Dot,         ///< of the query's vector `a` and a key's vector `b`
  Softmax,     ///< over the keys of one operand
  Attend,      ///< the sum over the keys of the operands: a softmax times a number of the key
  Complex,     ///< of two operands
  Position,    ///< of the token: 0, 1, 2, ...
  KeyPosition, ///< of the key
  Band,        ///< whether (c: not) the key is a to b tokens before the query
  Mask,        ///< 0 where the operand is true, else `number`; 0: -inf, or as good as that
  Largest,     ///< over the keys of the operand
  Beside,      ///< the first operand for each key, and once more, behind them, the second
};

/// The smallest number of f16, and all below it: exp of it is 0 beside any score, as that of -inf.
inline constexpr double kMasked = -65504;
/// exp of it, and of all below, is 0 in f32: such a number may hide a key, if scores are small.
inline constexpr double kVanishing = -104;

/// Less than half of what f32 knows of 1 and above: there it is added to no effect.
inline constexpr double kRoundedAway = 0x1p-24;

/// Ends of a band that it does not have.
inline constexpr int32_t kOpenBelow = INT32_MIN, kOpenAbove = INT32_MAX;

/// Keys whose distance from the query, forward in time, is from `least` to `most`, or all others.
struct KeyBand {
  int32_t least = kOpenBelow, most = kOpenAbove;
  bool isOutside = false;
  bool operator==(const KeyBand &) const = default;
};

enum class Function : uint8_t {
  Sqrt,
  Rsqrt,
  Reciprocal,
  Cos,
  Sin,
  Tanh,
  IsMinusInfinity,
  Not,
  AnyKey,
  FirstToken, ///< what the first token has there
  Exp,
  Log,
  SumKeys, ///< over the keys
};

struct Source : llvm::FoldingSetNode {
  SourceKind kind;
  double number = 0; ///< of a constant, or the factor of a product
  uint32_t a = 0, b = 0, c = 0;
  llvm::ArrayRef<Expr> operands = {};
  mlir::Operation *node = nullptr; ///< of an opaque number
  /// Why the node is not understood: its own reason, or numbers that it takes.
  llvm::StringRef reason = {};
  const Source *cause = nullptr;
  mlir::Operation *maker = nullptr; ///< the node at which it was first made
  uint32_t id = 0;                  ///< of the source among all

  void Profile(llvm::FoldingSetNodeID &id) const;
};

class Expressions {
public:
  Expressions();

  const Source &operator[](Expr expr) const { return *sources[expr.source]; }
  llvm::ArrayRef<Expr> vector(VectorId id) const { return vectors[id]->values; }
  size_t size() const { return sources.size(); }
  /// What is made from now on, a node makes.
  void setMaker(mlir::Operation *node) { maker = node; }

  Expr undefined() const { return {}; }
  Expr argument(uint32_t number, uint32_t channel) {
    return {intern({.kind = SourceKind::Argument, .a = number}), channel};
  }
  /// The source of a projection's rows. `bias` is null or an argument.
  uint32_t linear(VectorId input, uint32_t weight, std::optional<uint32_t> bias) {
    return intern({.kind = SourceKind::Linear, .a = input, .b = weight, .c = bias ? *bias + 1 : 0});
  }
  uint32_t opaque(mlir::Operation *node, uint32_t result, llvm::StringRef reason,
                  const Source *cause);
  Expr constant(double value);
  Expr add(Expr x, Expr y);
  Expr multiply(Expr x, Expr y);
  Expr scale(double factor, Expr x) { return multiply(constant(factor), x); }
  Expr negate(Expr x) { return scale(-1, x); }
  Expr apply(Function function, Expr x);
  Expr mean(VectorId vector) { return {intern({.kind = SourceKind::Mean, .a = vector}), 0}; }
  Expr dot(llvm::ArrayRef<Expr> query, llvm::ArrayRef<Expr> key);
  Expr softmax(Expr score);
  /// Weights of keys, or their exponentials, without those that are not seen; none where others,
  /// which a softmax has seen, would be missing from a sum of 1.
  std::optional<Expr> weighSeen(Expr weights, Expr band);
  /// Whether it is the exponentials' sum over keys of which the largest is 1.
  bool isSumAboveOne(Expr x);
  /// Over the keys, of the scores' exponentials.
  Expr sumExp(Expr score) { return apply(Function::SumKeys, apply(Function::Exp, score)); }
  Expr attend(Expr weights, Expr value);
  Expr complex(Expr real, Expr imaginary);
  Expr position() { return {intern({.kind = SourceKind::Position}), 0}; }
  Expr keyPosition() { return {intern({.kind = SourceKind::KeyPosition}), 0}; }
  Expr band(KeyBand band);
  /// `depth` is added to keys that are not seen.
  Expr mask(Expr condition, double depth = kMasked) {
    return internExpr(SourceKind::Mask, condition, depth <= kMasked ? 0 : depth);
  }
  Expr causal() { return mask(band({.least = 0})); }
  Expr largest(Expr score) { return internExpr(SourceKind::Largest, score); }
  Expr beside(Expr score, Expr sink);

  VectorId internVector(llvm::ArrayRef<Expr> values);

  bool isFunction(Expr x, Function function) const;
  std::optional<double> getConstant(Expr x) const;
  std::optional<KeyBand> getBand(Expr x) const;
  /// Of a mask.
  std::optional<KeyBand> getMaskBand(Expr x) const;
  /// None where no band is both.
  std::optional<Expr> both(Expr x, Expr y);
  Expr invert(Expr x);
  /// x as a factor and the rest.
  std::pair<double, Expr> splitFactor(Expr x);

private:
  struct Vector : llvm::FoldingSetNode {
    llvm::ArrayRef<Expr> values;
    VectorId id;
    void Profile(llvm::FoldingSetNodeID &node) const;
  };

  std::optional<Expr> addMask(Expr scores, Expr other);
  void divideBySums(llvm::SmallVectorImpl<Expr> &factors);
  bool isLargest(Expr x);
  bool isHidden(Expr scores, Expr band);
  std::optional<Expr> subtractBand(std::optional<double> one, Expr term);
  uint32_t intern(Source source);
  Expr internExpr(SourceKind kind, llvm::ArrayRef<Expr> operands, double number = 0) {
    Source source{.kind = kind, .number = number};
    source.operands = operands;
    return {intern(source), 0};
  }

  Expr maskBoth(Expr seen, Expr first, Expr second);

  mlir::Operation *maker = nullptr;
  llvm::BumpPtrAllocator memory;
  llvm::FoldingSet<Source> known;
  llvm::FoldingSet<Vector> knownVectors;
  std::vector<const Source *> sources;
  std::vector<const Vector *> vectors;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_EXPRESSIONS_H
