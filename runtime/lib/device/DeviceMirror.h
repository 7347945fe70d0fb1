//===- DeviceMirror.h - device memory written on the host -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Device memory at a fixed address with a copy of the same layout in pinned host
// memory. The host writes the copy and says where; upload() sends what was touched,
// in stream order, by whatever is cheapest:
//
//   touched   ####        #                  #     #             ##########
//   sent      one copy    one write of a word each               one copy
//
// The copies read the host's memory while they are under way, so it may be written
// only after wait(). If an upload fails, nothing is known of the device's bytes: the
// next one sends them all.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_DEVICEMIRROR_H
#define MLAC_RUNTIME_DEVICEMIRROR_H

#include "device/Device.h"

namespace mlac::runtime {

class DeviceMirror {
public:
  /// What an upload has sent.
  struct Sent {
    int64_t bytes = 0;
    int64_t calls = 0; // copies, and one for all words together
  };

  DeviceMirror() = default;
  DeviceMirror(const DeviceMirror &) = delete;
  DeviceMirror &operator=(const DeviceMirror &) = delete;
  /// Waits for the device.
  ~DeviceMirror();

  /// Once. `what` names the memory in errors. Nothing is uploaded yet.
  Status create(std::shared_ptr<Device> device, int64_t bytes, std::string_view what);

  uint8_t *host() const { return host_; }
  char *data() const { return device_.data(); }
  Device &device() const { return *owner; }

  /// Waits until the last upload has read the host's memory.
  Status wait();
  /// Bytes [begin, end) of the host's memory were written, `begin` not before that of
  /// the last call since the last upload. Does not allocate.
  void touch(int64_t begin, int64_t end);
  /// Sends what was touched.
  Status upload(mla_stream *stream, Sent &sent);
  /// Sends the first `bytes` bytes and waits.
  Status uploadNow(int64_t bytes);
  /// Nothing is known of the device's bytes: the next upload sends all of them.
  void forget();

private:
  /// Neighbours that were touched.
  struct Range {
    int64_t begin, end;
    size_t firstWord, numWords; // in `words`
    bool hasMore;               // too much was touched to send single words
  };

  void addWords(Range &range, int64_t begin, int64_t end);
  Status send(mla_stream *stream, Sent &sent);

  std::shared_ptr<Device> owner;
  int64_t bytes_ = 0;
  uint8_t *host_ = nullptr;
  DeviceBuffer device_;
  std::vector<Range> ranges;
  std::vector<int64_t> words; // offsets
  std::unique_ptr<Event> uploaded;
  bool isUploading = false; // `uploaded` has been recorded
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_DEVICEMIRROR_H
