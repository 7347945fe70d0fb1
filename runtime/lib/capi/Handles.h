//===- Handles.h - checked handles of the C API -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The C API hands out ids in the clothes of pointers. An id names a slot of its
// type's table and the slot's generation:
//
//   bits 56..63 type tag, 32..55 generation, 0..31 slot
//
// so a null, closed or foreign handle is found by comparison, never by reading
// through it. Objects are shared: a call in progress keeps its object alive
// while another thread closes the handle.
//
// In a child of fork() objects of the parent's devices are refused (Process.h), before
// any of their locks is taken, which a thread of the parent may have held. Closing one
// there ends the handle and touches nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_HANDLES_H
#define MLAC_RUNTIME_HANDLES_H

#include "base/Process.h"
#include "base/Status.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace mlac::runtime {

/// Whether an object uses threads or memory of a device. Others are overloads.
template <typename Object> bool isOfDevice(const Object &) { return true; }

/// `Opaque` is the C API's struct, `Object` what it stands for.
template <typename Opaque, typename Object, uint8_t kTag> class HandleTable {
public:
  /// `what` names the type in messages ("plan").
  explicit HandleTable(const char *what) : what(what) {}

  Opaque *insert(std::shared_ptr<Object> object) {
    std::lock_guard lock(mutex);
    uint64_t index;
    if (freeSlots.empty()) {
      index = slots.size();
      // So that remove() cannot fail for lack of memory.
      if (freeSlots.capacity() <= index)
        freeSlots.reserve(2 * index + 1);
      slots.emplace_back();
    } else {
      index = freeSlots.back();
      freeSlots.pop_back();
    }
    slots[index].object = std::move(object);
    slots[index].epoch = processEpoch;
    uint64_t id =
        uint64_t(kTag) << kTagShift | uint64_t(slots[index].generation) << kGenerationShift | index;
    return reinterpret_cast<Opaque *>(id);
  }

  Status find(const Opaque *handle, std::shared_ptr<Object> &object) {
    std::lock_guard lock(mutex);
    Slot *slot;
    MLAC_RETURN_IF_ERROR(check(handle, slot));
    if (isInherited(*slot))
      return error(MLA_WRONG_STATE, "the ", what,
                   " was made before fork(): a child process cannot use its parent's devices, "
                   "it opens its own");
    object = slot->object;
    return Status();
  }

  /// Takes the object out; the handle becomes stale. `object` stays null where it is the
  /// parent's: its end would wait for threads and free memory that are not here, so it
  /// is left to the end of the process, with its slot.
  Status remove(const Opaque *handle, std::shared_ptr<Object> &object) {
    std::lock_guard lock(mutex);
    Slot *slot;
    MLAC_RETURN_IF_ERROR(check(handle, slot));
    slot->generation = (slot->generation + 1) & kGenerationMask;
    if (isInherited(*slot))
      return Status();
    object = std::move(slot->object);
    slot->object.reset();
    freeSlots.push_back(static_cast<uint64_t>(slot - slots.data()));
    return Status();
  }

  /// Calls function(number, object) for every object of this process. Objects stay alive
  /// meanwhile, and the table is not locked.
  template <typename Function> void forEach(Function function) {
    std::vector<std::pair<uint64_t, std::shared_ptr<Object>>> objects;
    {
      std::lock_guard lock(mutex);
      for (size_t index = 0; index < slots.size(); ++index)
        if (slots[index].object && !isInherited(slots[index]))
          objects.emplace_back(index, slots[index].object);
    }
    for (auto &[index, object] : objects)
      function(index, *object);
  }

  /// Around fork(), so that no child finds the table half changed or locked for ever.
  void lock() { mutex.lock(); }
  void unlock() { mutex.unlock(); }

private:
  static constexpr int kTagShift = 56, kGenerationShift = 32;
  static constexpr uint32_t kGenerationMask = (1 << 24) - 1;

  struct Slot {
    std::shared_ptr<Object> object;
    uint32_t generation = 1;
    uint64_t epoch = 0; // of the process that made it
  };

  static bool isInherited(const Slot &slot) {
    return slot.epoch != processEpoch && isOfDevice(*slot.object);
  }

  Status check(const Opaque *handle, Slot *&slot) {
    auto id = reinterpret_cast<uint64_t>(handle);
    if (id == 0)
      return error(MLA_INVALID_ARGUMENT, what, " is null");
    uint64_t index = id & 0xffffffff;
    if (id >> kTagShift != kTag || index >= slots.size())
      return error(MLA_INVALID_ARGUMENT, "the handle is no ", what);
    slot = &slots[index];
    uint32_t generation = id >> kGenerationShift & kGenerationMask;
    if (!slot->object || slot->generation != generation)
      return error(MLA_INVALID_ARGUMENT, "the ", what, " has been closed");
    return Status();
  }

  const char *what;
  std::mutex mutex;
  std::vector<Slot> slots;
  std::vector<uint64_t> freeSlots;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_HANDLES_H
