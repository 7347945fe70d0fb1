//===- BenchMoves.cpp - how long pages take to move ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchMoves.h"

#include "Functions.h"

#include <algorithm>
#include <functional>
#include <memory>

using namespace mlac::run;
using nlohmann::json;

namespace {
/// An engine with room for the batch twice, so that there is always a place to move to.
class Moves {
public:
  Moves(const Session &session, const MoveOptions &options);
  json measure();

private:
  using Group = std::unique_ptr<Sequences>;
  void fill(Group &group);
  double time(const std::function<void()> &work);
  json row(const char *what, int64_t factor, std::vector<double> seconds) const;

  const Session &session;
  MoveOptions options;
  int64_t pages;
  Engine engine;
  Cache cache;
  Swap swap;
  Event begin, end;
};
} // namespace

Moves::Moves(const Session &session, const MoveOptions &options)
    : session(session), options(options),
      pages(options.requests * ((options.tokens + session.pageSize - 1) / session.pageSize)) {
  EngineSizes sizes;
  sizes.requests = 2 * options.requests;
  sizes.sequenceTokens = options.tokens;
  sizes.tokens = 1;
  sizes.pages = 2 * pages;
  engine = makeEngine(session, sizes);
  fillCache(session, engine.get(), options.seed);
  check(mla_engine_cache(engine.get(), cache.out()), "asking for the cache");
  check(mla_event_create(session.device.get(), begin.out()), "making an event");
  check(mla_event_create(session.device.get(), end.out()), "making an event");
}

void Moves::fill(Group &group) {
  group = std::make_unique<Sequences>(engine.get(), options.requests);
  for (int64_t r = 0; r < options.requests; ++r)
    takeTokens(engine.get(), (*group)[r], options.tokens);
}

double Moves::time(const std::function<void()> &work) {
  double milliseconds = 0;
  check(mla_event_record(begin.get(), nullptr), "recording an event");
  work();
  check(mla_event_record(end.get(), nullptr), "recording an event");
  check(mla_event_elapsed(begin.get(), end.get(), &milliseconds), "waiting for pages");
  return milliseconds / 1e3;
}

json Moves::row(const char *what, int64_t factor, std::vector<double> seconds) const {
  std::sort(seconds.begin(), seconds.end());
  int64_t rowBytes = session.info.at("pools").at(0).at("row_bytes");
  return {{"what", what},
          {"pages", pages},
          {"bytes", factor * pages * session.pageSize * rowBytes},
          {"median_us", seconds[seconds.size() / 2] * 1e6}};
}

json Moves::measure() {
  constexpr int64_t kWarmUps = 2;
  std::vector<double> move, out, in;
  Group front, back;
  fill(front);
  fill(back);
  check(mla_swap_create(engine.get(), pages, swap.out()), "making room on the host");
  std::vector<uint64_t> tickets(options.requests);
  for (int64_t i = -kWarmUps; i < options.iterations; ++i) {
    front.reset();
    double seconds[] = {
        time([&] {
          check(mla_cache_compact(cache.get(), pages, nullptr, nullptr), "moving pages");
        }),
        time([&] {
          for (int64_t r = 0; r < options.requests; ++r)
            check(mla_swap_out(swap.get(), (*back)[r], nullptr, &tickets[r]), "swapping out");
        }),
        time([&] {
          for (int64_t r = 0; r < options.requests; ++r)
            check(mla_swap_in(swap.get(), tickets[r], (*back)[r], nullptr), "swapping in");
        })};
    std::swap(front, back);
    fill(back);
    if (i < 0)
      continue;
    move.push_back(seconds[0]);
    out.push_back(seconds[1]);
    in.push_back(seconds[2]);
  }
  return {row("move", 2, move), row("swap out", 1, out), row("swap in", 1, in)};
}

/// Whether the functions of the device's target are there.
static bool canMove(const Session &session) {
  for (const json &target : session.info.at("targets"))
    for (const json &function : target.at("functions"))
      if (function.at("name") == "swap_out")
        return true;
  return false;
}

json mlac::run::measureMoves(const Session &session, const MoveOptions &options) {
  return canMove(session) ? Moves(session, options).measure() : json::array();
}
