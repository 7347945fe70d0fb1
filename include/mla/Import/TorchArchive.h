//===- TorchArchive.h - a torch.export archive and its graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A .pt2 file is a zip of stored entries: the graph as JSON, weights as raw bytes beside a
// list of their shapes. Nothing of it is trusted: every size is compared with the bytes that
// are there. Read are archives of the schema's major version 8 (torch 2.9 to 2.11 and later).
// The pickled example inputs are not looked at.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_TORCHARCHIVE_H
#define MLA_IMPORT_TORCHARCHIVE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlac {

class ZipFile;

/// A parameter, buffer or constant, dense in row-major order.
struct TorchWeight {
  std::string entry; ///< of the zip file
  int64_t dtype;     ///< torch's ScalarType, one that getTorchType knows
  std::vector<int64_t> shape;
  uint64_t offset; ///< bytes before it in the entry
  uint64_t size;   ///< bytes
};

/// The MLIR type of a torch ScalarType; null for those that no graph here has.
mlir::Type getTorchType(mlir::MLIRContext &context, int64_t dtype);

class TorchArchive {
public:
  /// `bytes` must outlive the object.
  static llvm::Expected<TorchArchive> open(llvm::StringRef bytes);
  ~TorchArchive();
  TorchArchive(TorchArchive &&);

  const llvm::json::Object &model() const { return root; }
  /// By their names in the model's state.
  const llvm::StringMap<TorchWeight> &weights() const { return found; }
  llvm::Expected<std::string> readWeight(llvm::StringRef name) const;
  /// The file `extra/<name>` that the archive was saved with, if any.
  llvm::Expected<std::optional<std::string>> readExtra(llvm::StringRef name) const;

private:
  TorchArchive();
  llvm::Error readModel();
  llvm::Error readWeights(llvm::StringRef kind);

  std::unique_ptr<ZipFile> zip;
  std::string folder; ///< of all entries, with its slash
  std::string name;   ///< of the model
  llvm::json::Object root;
  llvm::StringMap<TorchWeight> found;
};

/// The archive's graph as a module with one function in the `graph` dialect. Fails with a
/// diagnostic at `loc`.
mlir::OwningOpRef<mlir::ModuleOp> importTorchGraph(mlir::Location loc, const TorchArchive &archive);

} // namespace mlac

#endif // MLA_IMPORT_TORCHARCHIVE_H
