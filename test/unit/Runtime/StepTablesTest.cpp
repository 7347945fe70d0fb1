//===- StepTablesTest.cpp - metadata that stays on the device ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two plans take turns at one cache while its sequences are forked, cut, freed, moved
// and published. After each step the device must hold what a table made anew would,
// though only differences were sent, uploads were late, and some failed.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"
#include "step/StepPlanner.h"

#include <cstring>
#include <deque>
#include <numeric>
#include <random>

using namespace mlac::runtime;

namespace {
/// A CPU whose uploads arrive only when somebody waits for them, and fail on demand.
class LateDevice : public Device {
public:
  LateDevice() { EXPECT_TRUE(openCpuDevice(1, cpu).isOk()); }

  /// Calls until one fails; negative: none does.
  int failAfter = -1;
  int64_t numCopies = 0, numWords = 0;

  /// What was sent arrives; its source must not have been written meanwhile.
  void arrive() {
    for (; !late.empty(); late.pop_front()) {
      const Upload &upload = late.front();
      if (upload.isCopy)
        ASSERT_EQ(std::memcmp(upload.from, upload.bytes.data(), upload.bytes.size()), 0);
      std::memcpy(upload.to, upload.bytes.data(), upload.bytes.size());
    }
  }

  Status uploadAsync(void *to, const void *staging, size_t bytes, mla_stream *) override {
    return enqueue(to, staging, bytes, /*isCopy=*/true);
  }
  Status writeWords(char *to, const uint8_t *staging, std::span<const int64_t> offsets,
                    mla_stream *) override {
    for (int64_t offset : offsets)
      MLAC_RETURN_IF_ERROR(enqueue(to + offset, staging + offset, sizeof(int32_t), false));
    return Status();
  }
  Status createEvent(std::unique_ptr<Event> &event) override {
    event = std::make_unique<LateEvent>(*this);
    return Status();
  }
  Status synchronize() override {
    arrive();
    return Status();
  }

  bool isCuda() const override { return false; }
  int64_t numSms() const override { return cpu->numSms(); }
  const std::string &infoJson() const override { return cpu->infoJson(); }
  bool supports(const fb::Target &target, std::string &reason) const override {
    return cpu->supports(target, reason);
  }
  int64_t preference(const fb::Target &target) const override { return cpu->preference(target); }
  Status load(const fb::Target &target, std::unique_ptr<Program> &program) override {
    return cpu->load(target, program);
  }
  Status allocate(size_t bytes, void **data) override { return cpu->allocate(bytes, data); }
  void release(void *data) override { cpu->release(data); }
  Status allocateStaging(size_t bytes, void **data) override {
    return cpu->allocateStaging(bytes, data);
  }
  void releaseStaging(void *data) override { cpu->releaseStaging(data); }
  Status upload(void *to, const void *from, size_t bytes) override {
    return cpu->upload(to, from, bytes);
  }
  Status download(void *to, const void *from, size_t bytes) override {
    return cpu->download(to, from, bytes);
  }
  Status downloadAsync(void *to, const void *from, size_t bytes, mla_stream *stream) override {
    return cpu->downloadAsync(to, from, bytes, stream);
  }
  Status copyAsync(void *to, const void *from, size_t bytes, mla_stream *stream) override {
    return cpu->copyAsync(to, from, bytes, stream);
  }
  Status fillAsync(void *to, uint8_t value, size_t bytes, mla_stream *stream) override {
    return cpu->fillAsync(to, value, bytes, stream);
  }
  Status checkStream(mla_stream *stream) const override { return cpu->checkStream(stream); }
  Status createStream(mla_stream **stream) override { return cpu->createStream(stream); }
  Status destroyStream(mla_stream *stream) override { return cpu->destroyStream(stream); }
  Status synchronize(mla_stream *) override { return synchronize(); }

private:
  struct LateEvent : Event {
    explicit LateEvent(LateDevice &device) : device(device) {}
    Status record(mla_stream *) override { return Status(); }
    Status wait() override { return device.synchronize(); }
    Status delay(mla_stream *) override { return Status(); }
    Status elapsed(Event &, double &) override { return Status(); }
    LateDevice &device;
  };
  struct Upload {
    void *to;
    const void *from;
    std::vector<uint8_t> bytes;
    bool isCopy; // reads its source when it arrives
  };

  Status enqueue(void *to, const void *from, size_t count, bool isCopy) {
    if (failAfter >= 0 && failAfter-- == 0)
      return error(MLA_DEVICE_ERROR, "the upload fails");
    auto *bytes = static_cast<const uint8_t *>(from);
    late.push_back({to, from, {bytes, bytes + count}, isCopy});
    (isCopy ? numCopies : numWords) += 1;
    return Status();
  }

  std::shared_ptr<Device> cpu;
  std::deque<Upload> late;
};

constexpr int64_t kPageRows = 4, kPages = 2048, kMaxLength = 2048, kMaxRequests = 64;

/// What a plan has of metadata.
struct Tables {
  explicit Tables(std::shared_ptr<Device> device)
      : planner({kMaxRequests,
                 /*maxTokens=*/512,
                 kMaxLength,
                 /*workspaceTokens=*/4096,
                 kPageRows,
                 kPages,
                 /*pageStrideElements=*/24,
                 /*ropeLength=*/kMaxLength,
                 /*numSms=*/2,
                 {},
                 /*hasParts=*/true}),
        rows(planner.makeRows()) {
    EXPECT_TRUE(mirror.create(std::move(device), planner.maxBytes(), "metadata").isOk());
    rows[0].clear(mirror);
    EXPECT_TRUE(mirror.uploadNow(rows[0].bytes()).isOk());
  }
  StepPlanner planner;
  std::vector<TableRows> rows;
  DeviceMirror mirror;
};

class StepTablesTest : public ::testing::Test {
protected:
  int64_t pick(int64_t below) { return static_cast<int64_t>(random() % uint64_t(below)); }
  Sequence &at(mla_sequence id) {
    Sequence *sequence = nullptr;
    EXPECT_TRUE(cache.find(id, sequence).isOk());
    return *sequence;
  }
  void change();
  void changeSequence(size_t index);
  void step(Tables &tables);
  Status measure(Tables &tables, const std::vector<int32_t> &lens);
  mla_step_shape pickShape(const std::vector<int32_t> &lens, int64_t numDecodes);
  void compare(Tables &tables);

  std::mt19937_64 random{11};
  std::shared_ptr<LateDevice> device = std::make_shared<LateDevice>();
  KVCache cache{kPages, kPageRows, kMaxLength};
  std::vector<mla_sequence> batch;
  std::vector<int64_t> placeOf; // each request's row
  int64_t numSteps = 0, numRefused = 0, numFailed = 0;
};
} // namespace

/// Another sequence in the batch's place `index`, or another state of the one there.
void StepTablesTest::changeSequence(size_t index) {
  mla_sequence id = batch[index], child;
  int64_t length = at(id).length;
  std::vector<int32_t> tokens(static_cast<size_t>(length), 1);
  switch (pick(9)) {
  case 0: // finished
  case 7:
  case 8:
    ASSERT_TRUE(cache.free(id).isOk());
    batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(index));
    return;
  case 1: // speculation taken back, or swapped out
    ASSERT_TRUE(cache.truncate(at(id), pick(2) ? pick(length + 1) : 0).isOk());
    return;
  case 2: // whoever writes first copies the last page
    if (batch.size() < kMaxRequests && cache.fork(id, length, child).isOk())
      batch.push_back(child);
    return;
  case 3: // pages that the kernels may not see yet
    (void)cache.reserve(at(id), std::min(kMaxLength, length + pick(20)));
    return;
  case 4:
    (void)cache.publish(
        at(id), cache.publishedTokens(at(id)),
        std::span(tokens).subspan(static_cast<size_t>(cache.publishedTokens(at(id)))));
    return;
  case 5:
    std::swap(batch[index], batch[static_cast<size_t>(pick(int64_t(batch.size())))]);
    return;
  default:
    (void)cache.compact(pick(8));
    cache.copiesDone();
  }
}

void StepTablesTest::change() {
  if (batch.size() < 24 || (batch.size() < kMaxRequests && pick(12) == 0)) {
    mla_sequence id;
    ASSERT_TRUE(cache.create(id).isOk());
    std::vector<int32_t> prompt(static_cast<size_t>(pick(64) + 1), 1);
    (void)cache.match(at(id), prompt);
    batch.insert(batch.begin() + pick(int64_t(batch.size()) + 1), id);
  }
  if (pick(3) == 0)
    changeSequence(static_cast<size_t>(pick(int64_t(batch.size()))));
}

/// Sizes that the batch fits into, with some room.
mla_step_shape StepTablesTest::pickShape(const std::vector<int32_t> &lens, int64_t numDecodes) {
  int64_t decodeTokens = std::accumulate(lens.begin(), lens.begin() + numDecodes, int64_t(0));
  int64_t tokens = std::accumulate(lens.begin(), lens.end(), int64_t(0));
  auto numRequests = static_cast<int64_t>(lens.size());
  mla_step_shape shape = {};
  shape.num_decodes = numDecodes + pick(kMaxRequests - numRequests + 1);
  shape.num_requests = shape.num_decodes + numRequests - numDecodes;
  shape.num_decode_tokens = decodeTokens + pick(3);
  shape.num_tokens = std::max<int64_t>(shape.num_decode_tokens + tokens - decodeTokens, 1);
  shape.max_query_len = std::max(*std::max_element(lens.begin(), lens.end()), 1);
  shape.max_seq_len = kMaxLength;
  return shape;
}

Status StepTablesTest::measure(Tables &tables, const std::vector<int32_t> &lens) {
  constexpr int64_t kThreshold = 1;
  const FunctionInfo function{};
  mla_batch requests = {sizeof requests, static_cast<int64_t>(batch.size()), batch.data(),
                        lens.data(), 0};
  MLAC_RETURN_IF_ERROR(tables.planner.measure(cache, requests));
  if (!tables.planner.hasPages(cache))
    return Status(MLA_OUT_OF_PAGES, {});
  placeOf.resize(lens.size());
  std::iota(placeOf.begin(), placeOf.end(), 0);
  switch (pick(3)) {
  case 0:
    return tables.planner.measureFor({function, kThreshold});
  case 1: {
    auto isPrefill = [](int32_t len) { return len > kThreshold; };
    int64_t numDecodes = std::find_if(lens.begin(), lens.end(), isPrefill) - lens.begin();
    mla_step_shape shape = pickShape(lens, numDecodes);
    for (size_t i = static_cast<size_t>(numDecodes); i < lens.size(); ++i)
      placeOf[i] += shape.num_decodes - numDecodes;
    return tables.planner.measureFor({function, kThreshold, &shape});
  }
  default:
    return Status();
  }
}

/// The device's tables with those of the cache, its other arrays with the host's.
void StepTablesTest::compare(Tables &tables) {
  device->arrive();
  const StepLayout &layout = tables.planner.layout();
  const DimValues &dims = tables.planner.dims();
  int64_t columns = mlac::runtime::at(dims, Dim::MaxBlocksPerRequest);
  const char *data = tables.mirror.data();
  auto expectBytes = [&](int64_t offset, const void *expected, int64_t bytes) {
    ASSERT_EQ(std::memcmp(data + offset, expected, static_cast<size_t>(bytes)), 0)
        << "step " << numSteps << ", bytes from " << offset;
  };
  std::vector<int32_t> table(
      static_cast<size_t>(mlac::runtime::at(dims, Dim::NumRequests) * columns), kUnusedPage);
  for (size_t i = 0; i < batch.size(); ++i) {
    const Sequence &sequence = at(batch[i]);
    std::copy_n(sequence.pages.begin(), ceilDiv(sequence.length, kPageRows),
                table.begin() + placeOf[i] * columns);
  }
  MetadataArray all = layout.arrays[size_t(Metadata::BlockTable)];
  MetadataArray prefills = layout.arrays[size_t(Metadata::PrefillBlockTable)];
  ASSERT_EQ(all.elements, static_cast<int64_t>(table.size()));
  expectBytes(all.offset, table.data(), all.elements * 4);
  expectBytes(prefills.offset, table.data() + all.elements - prefills.elements,
              prefills.elements * 4);
  expectBytes(layout.tableBytes, tables.mirror.host() + layout.tableBytes,
              layout.bytes - layout.tableBytes);
}

/// As Plan does it.
void StepTablesTest::step(Tables &tables) {
  std::vector<int32_t> lens;
  for (size_t i = 0; i < batch.size(); ++i)
    lens.push_back(pick(200) == 0 ? static_cast<int32_t>(pick(150)) : pick(8) > 0);
  if (!measure(tables, lens).isOk()) { // mostly for lack of pages
    ++numRefused;
    return;
  }
  ++numSteps;
  ASSERT_TRUE(tables.mirror.wait().isOk());
  tables.planner.fill(cache, tables.mirror, tables.rows);
  cache.copiesDone();
  device->failAfter = pick(8) == 0 ? static_cast<int>(pick(3)) : -1;
  DeviceMirror::Sent sent;
  if (!tables.mirror.upload(nullptr, sent).isOk()) {
    ++numFailed;
    tables.planner.rollback(cache);
  } else if (pick(2)) { // else the upload is still under way at the next step
    compare(tables);
  }
}

TEST_F(StepTablesTest, C15_RandomStepsMatchATableMadeAnew) {
  Tables tables[2] = {Tables(device), Tables(device)};
  for (int i = 0; i < 6000; ++i) {
    ASSERT_NO_FATAL_FAILURE(change()) << i;
    ASSERT_NO_FATAL_FAILURE(step(tables[pick(4) == 0])) << i;
  }
  std::string problem;
  EXPECT_TRUE(cache.check(problem)) << problem;
  // Every path was taken.
  EXPECT_GT(numSteps, 2000);
  EXPECT_GT(numRefused, 100);
  EXPECT_GT(numFailed, 100);
  EXPECT_GT(device->numWords, 500);
  EXPECT_GT(device->numCopies, numSteps);
}

/// A decode step sends its arrays, and a word for each request that starts a page.
TEST_F(StepTablesTest, C14_DecodeSendsWhatChanges) {
  Tables tables(device);
  for (int64_t i = 0; i < kMaxRequests; ++i) {
    ASSERT_TRUE(cache.create(batch.emplace_back()).isOk());
    at(batch.back()).length = i == 3 ? 98 : 96; // request 3 starts its page first
    ASSERT_TRUE(cache.reserve(at(batch.back()), at(batch.back()).length).isOk());
  }
  std::vector<int32_t> lens(batch.size(), 1);
  mla_batch requests = {sizeof requests, kMaxRequests, batch.data(), lens.data(), 0};
  // Tokens 96, 97, 98 of the others; then a page of request 3 alone.
  const int64_t kEverything = -1, words[] = {kEverything, 0, 1, 0, kMaxRequests - 1};
  for (int64_t expected : words) {
    DeviceMirror::Sent sent;
    ASSERT_TRUE(tables.planner.measure(cache, requests).isOk());
    ASSERT_TRUE(tables.mirror.wait().isOk());
    tables.planner.fill(cache, tables.mirror, tables.rows);
    ASSERT_TRUE(tables.mirror.upload(nullptr, sent).isOk());
    int64_t arrays = tables.planner.layout().bytes - tables.planner.layout().tableBytes;
    bool isOneCopy = expected == kEverything || expected > 40;
    if (isOneCopy) // with the gaps between rows, which cost less than more calls
      EXPECT_GT(sent.bytes, tables.rows[0].bytes() / 2);
    else
      EXPECT_EQ(sent.bytes, arrays + expected * 4);
    EXPECT_EQ(sent.calls, 1 + (expected == 1));
  }
}
