//===- Status.h - outcome of a fallible operation ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A status code of the C API with its message. Success and MLA_OUT_OF_PAGES
// carry no text, so that the frequent outcomes do not allocate.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STATUS_H
#define MLAC_RUNTIME_STATUS_H

#include "mla_runtime.h"

#include <string>
#include <string_view>
#include <type_traits>

namespace mlac::runtime {

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(mla_status code, std::string message) : code_(code), message_(std::move(message)) {}

  bool isOk() const { return code_ == MLA_OK; }
  mla_status code() const { return code_; }
  const std::string &message() const { return message_; }
  std::string takeMessage() { return std::move(message_); }

  /// The same code with "context: " before the message. The context's parts are joined
  /// only where there is a message: they may be long, and of every part of a file.
  template <typename... Parts> Status in(const Parts &...parts) const;

private:
  mla_status code_ = MLA_OK;
  std::string message_;
};

namespace detail {
template <typename T> void append(std::string &text, const T &part) {
  if constexpr (std::is_arithmetic_v<T>)
    text += std::to_string(part);
  else if constexpr (std::is_enum_v<T>)
    text += std::to_string(static_cast<long long>(part));
  else
    text += std::string_view(part);
}
} // namespace detail

/// Joins strings and numbers.
template <typename... Parts> std::string concat(const Parts &...parts) {
  std::string text;
  (detail::append(text, parts), ...);
  return text;
}

template <typename... Parts> Status Status::in(const Parts &...parts) const {
  return isOk() ? Status() : Status(code_, concat(parts..., ": ", message_));
}

/// error(MLA_CORRUPT, "expected ", 3, " grid expressions, got ", n)
template <typename... Parts> Status error(mla_status code, const Parts &...parts) {
  return Status(code, concat(parts...));
}

} // namespace mlac::runtime

#define MLAC_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                             \
    if (::mlac::runtime::Status status_ = (expression); !status_.isOk())                           \
      return status_;                                                                              \
  } while (false)

#endif // MLAC_RUNTIME_STATUS_H
