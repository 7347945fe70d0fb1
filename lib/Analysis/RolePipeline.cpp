//===- RolePipeline.cpp - when roles that share a tensor pipe get done ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/RolePipeline.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>
#include <limits>

using namespace mlac;

namespace {
/// Differences of times below this many cycles are rounding errors.
constexpr double kTimeSlack = 1e-6;
constexpr double kNever = std::numeric_limits<double>::infinity();

class Machine {
public:
  Machine(llvm::ArrayRef<PipelineRole> programs, int64_t numEvents,
          std::vector<PipelineSpan> *spans)
      : happened(numEvents, -1.0), spans(spans) {
    for (const PipelineRole &program : programs)
      roles.push_back({program.getSteps(), -1.0, {}, 0});
  }

  std::optional<std::vector<double>> run() {
    for (;;) {
      bool changes = true;
      while (changes) {
        changes = finishCopies();
        changes |= advanceRoles();
      }
      if (llvm::all_of(roles, [](const Role &role) { return role.isDone(); }))
        return happened;
      double step = timeToNext();
      if (step == kNever)
        return std::nullopt;
      pass(step);
    }
  }

private:
  struct Product {
    PipelineStep step;
    double cycles; // left
    double since;  // when it was issued
  };
  struct Role {
    llvm::ArrayRef<PipelineStep> steps; // left
    double busyUntil;                   // negative: not in a Work step
    std::deque<Product> products;
    double since; // when the first of `steps` came up
    bool isDone() const { return steps.empty() && products.empty(); }
  };
  struct Copy {
    int64_t event;
    double at;
  };

  bool finishCopies() {
    size_t before = copies.size();
    llvm::erase_if(copies, [&](const Copy &copy) {
      if (copy.at > now + kTimeSlack)
        return false;
      happened[copy.event] = now;
      return true;
    });
    return copies.size() != before;
  }

  bool advanceRoles() {
    bool advanced = false;
    for (Role &role : roles)
      while (!role.steps.empty() && take(role, role.steps.front())) {
        role.steps = role.steps.drop_front();
        role.since = now;
        advanced = true;
      }
    return advanced;
  }

  /// Whether the step is done at this time.
  bool take(Role &role, const PipelineStep &step) {
    switch (step.kind) {
    case PipelineStep::Kind::Await:
      if (happened[step.event] < 0)
        return false;
      record(role, step, role.since, now);
      return true;
    case PipelineStep::Kind::Signal:
      happened[step.event] = now;
      return true;
    case PipelineStep::Kind::Work:
      if (role.busyUntil < 0)
        role.busyUntil = now + step.cycles;
      if (role.busyUntil > now + kTimeSlack)
        return false;
      role.busyUntil = -1;
      record(role, step, role.since, now);
      return true;
    case PipelineStep::Kind::Issue:
      role.products.push_back({step, step.cycles, now});
      return true;
    case PipelineStep::Kind::Load:
      copies.push_back({step.event, now + step.cycles});
      record(role, step, now, now + step.cycles);
      return true;
    }
    return false;
  }

  void record(const Role &role, const PipelineStep &step, double begin, double end) {
    if (spans && end > begin + kTimeSlack)
      spans->push_back({static_cast<size_t>(&role - roles.begin()), step, begin, end});
  }

  int64_t countUsers() const {
    return llvm::count_if(roles, [](const Role &role) { return !role.products.empty(); });
  }

  double timeToNext() const {
    double next = kNever;
    for (const Role &role : roles) {
      if (role.busyUntil >= 0)
        next = std::min(next, role.busyUntil - now);
      if (!role.products.empty())
        next = std::min(next, role.products.front().cycles * countUsers());
    }
    for (const Copy &copy : copies)
      next = std::min(next, copy.at - now);
    return next;
  }

  void pass(double cycles) {
    double share = cycles / std::max<int64_t>(1, countUsers());
    now += cycles;
    for (Role &role : roles) {
      if (role.products.empty())
        continue;
      Product &product = role.products.front();
      product.cycles -= share;
      if (product.cycles > kTimeSlack)
        continue;
      happened[product.step.event] = now;
      record(role, product.step, product.since, now);
      role.products.pop_front();
    }
  }

  double now = 0;
  llvm::SmallVector<Role, 4> roles;
  std::vector<Copy> copies;
  std::vector<double> happened;
  std::vector<PipelineSpan> *spans;
};
} // namespace

std::optional<std::vector<double>> mlac::runPipeline(llvm::ArrayRef<PipelineRole> roles,
                                                     int64_t numEvents,
                                                     std::vector<PipelineSpan> *spans) {
  return Machine(roles, numEvents, spans).run();
}
