//===- Machine.h - the CTAs of a cluster and their warpgroups ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warpgroup is a stack of frames that executes one op at a time and can stop
// before any of them. Its four warps run in step but know different things: an
// elected thread waits for its own warp only. What an op does stands in one file
// for each family:
//
//   ControlFlow.cpp  scf, roles, elect     Rings.cpp     stages and mbarriers
//   Elementwise.cpp  arith, math           Copies.cpp    cp.async, TMA
//   Fragments.cpp    fragments, stores     Products.cpp  wgmma
//   Scalars.cpp      views, barriers       Select.cpp    sm90.select_*
//   Machine.cpp      who goes next
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_SIMULATOR_MACHINE_H
#define MLA_LIB_SIMULATOR_MACHINE_H

#include "SharedMemory.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

#include <deque>
#include <functional>
#include <map>
#include <random>

namespace mlac::simulator {

enum class Step { Advanced, Blocked, Failed };

/// A region in execution.
struct Frame {
  Frame(mlir::Block *block, mlir::Operation *op) : block(block), next(block->begin()), op(op) {}
  mlir::Block *block;
  mlir::Block::iterator next;
  mlir::Operation *op; ///< whose region it is
  int64_t induction = 0, upper = 0, step = 0;
  unsigned mask = 0; ///< warps that take the then region, where warps differ
  bool isMixed = false;
  std::vector<Value> thenValues;
};

/// An mbarrier. `phase` counts the completed ones.
struct Mbarrier {
  Ring *ring = nullptr;
  int64_t slot = 0, part = 0; ///< part -1: the empty barrier
  int64_t count = 0, pending = 0, transactions = 0, phase = 0;
  int64_t awaited = 0;   ///< phases that somebody waited for
  int64_t delivered = 0; ///< phases up to the last one that copies complete
  int agent = 0;
  Knowledge arriving, done; ///< of the running and of the last completed phase
  Knowledge arrivingFar, doneFar; ///< what other CTAs of the cluster show by it
};

struct Ring {
  mlir::sm90::RingOp op;
  int64_t base = 0;
  int firstOwner = 0;
  std::vector<Mbarrier> full, empty;
  std::vector<int64_t> acquiredTurn; ///< of each slot, the last turn acquired
};

/// Where warps meet: the CTA's barrier, a role's, or a named one.
struct Meeting {
  int64_t expected = 0, arrived = 0, generation = 0;
  Knowledge arriving, done;
};

/// An asynchronous operation in flight.
struct Pending {
  mlir::Operation *op;
  uint64_t sequence = 0; ///< within its unit of the warpgroup
  bool waitsForEarlier = false;
  std::function<Step()> complete;
};

struct Warpgroup {
  int64_t index = 0; ///< in its CTA
  int64_t rank = 0;  ///< of its CTA in the cluster
  int64_t agent = 0; ///< number among those of the cluster
  std::vector<Frame> frames;
  std::vector<Value> values;
  mlir::sm90::RoleOp role;
  int64_t first = 0, count = 0; ///< warpgroups of the role, or of the CTA
  bool isElected = false;
  std::array<Knowledge, kWarps> warps;
  uint64_t accesses = 0; ///< ordinary ones so far
  uint64_t position = 0; ///< ops so far

  // Each unit: operations issued, the last one of each closed group, and those
  // in flight.
  struct Queue {
    uint64_t issued = 0, waited = 0; ///< waited: or handed to a barrier
    std::vector<uint64_t> groups;
    std::deque<Pending> pending;
  };
  Queue products, copies, stores;
  uint64_t fencedAt = 0; ///< position of the last wgmma fence
  bool isGroupFenced = false;
  bool hasWaitedForKernels = false;

  mlir::Operation *waitingAt = nullptr; ///< null: running
  uint64_t blockedVersion = 0;
  std::string waitingFor;
  int resume = 0; ///< point within an op that waits in its middle
  int64_t generation = 0;
  bool isDone = false;

  int64_t getLocal() const { return index - first; }
  unsigned getActiveWarps() const { return isElected ? 1 : (1 << kWarps) - 1; }
};

class Machine {
public:
  Machine(mlir::sm90::KernelOp kernel, llvm::ArrayRef<Argument> arguments, const Options &options);
  /// Runs the cluster whose first CTA is at `position` of the grid.
  std::optional<Finding> run(std::array<int64_t, 3> position, uint64_t seed);

private:
  // Machine.cpp
  void reset(std::array<int64_t, 3> position, uint64_t seed);
  std::optional<Finding> checkLayout();
  Step runBurst(Warpgroup &warpgroup);
  Step execute(Warpgroup &warpgroup);
  Step dispatch(Warpgroup &warpgroup, mlir::Operation *op);
  Step dispatchSm90(Warpgroup &warpgroup, mlir::Operation *op);
  Step completeOne();
  bool schedule();
  void reportDeadlock();
  Step checkEnd();
  size_t countPending();
  Step completePending(size_t index);

  // Values
  Value &get(Warpgroup &warpgroup, mlir::Value value) {
    return warpgroup.values[numbers.lookup(value)];
  }
  template <typename T> T &getAs(Warpgroup &warpgroup, mlir::Value value) {
    return std::get<T>(get(warpgroup, value));
  }
  int64_t getInt(Warpgroup &warpgroup, mlir::Value value) {
    return std::get<int64_t>(get(warpgroup, value));
  }
  std::vector<int64_t> getInts(Warpgroup &warpgroup, mlir::ValueRange values);
  Ring &getRing(Warpgroup &warpgroup, mlir::Value value) {
    return *std::get<Ring *>(get(warpgroup, value));
  }
  void set(Warpgroup &warpgroup, mlir::Value value, Value content) {
    get(warpgroup, value) = std::move(content);
  }
  Step fail(Defect defect, mlir::Operation *op, const llvm::Twine &text,
            mlir::Operation *other = nullptr, const llvm::Twine &note = "");
  Step block(Warpgroup &warpgroup, mlir::Operation *op, const llvm::Twine &why);
  std::string describe(const Place &place);

  // Fragments: the tile of an operand that an ordinary op may use, or null.
  Tile *use(Warpgroup &warpgroup, mlir::Operation *op, mlir::Value value);
  std::shared_ptr<Tile> makeTile(Warpgroup &warpgroup, mlir::Type type);

  // Shared memory
  Accessor makeAccessor(Warpgroup &warpgroup, mlir::Operation *op, Unit unit, unsigned warps);
  Step check(const std::optional<Conflict> &conflict, mlir::Operation *op, const Place &place);
  Step access(Warpgroup &warpgroup, mlir::Operation *op, const Place &place,
              const SharedMemory::Range &range, unsigned warps, bool isWrite);
  /// By the rows of a fragment: warp w takes 16 rows.
  Step accessByRows(Warpgroup &warpgroup, mlir::Operation *op, const Place &place, bool isWrite);
  bool isInside(const Place &place) {
    return place.base + place.type.getByteSize() <= memory->getBytes();
  }

  // ControlFlow.cpp
  Step enter(Warpgroup &warpgroup, mlir::Operation *op, mlir::Region &region);
  Step runFor(Warpgroup &warpgroup, mlir::scf::ForOp op);
  Step runIf(Warpgroup &warpgroup, mlir::scf::IfOp op);
  Step runWhile(Warpgroup &warpgroup, mlir::scf::WhileOp op);
  Step runYield(Warpgroup &warpgroup, mlir::Operation *op);
  Step runCondition(Warpgroup &warpgroup, mlir::scf::ConditionOp op);
  Step mergeBranches(Warpgroup &warpgroup, mlir::scf::IfOp op, llvm::ArrayRef<Value> thenValues,
                     llvm::ArrayRef<Value> elseValues, unsigned mask);
  Step runRole(Warpgroup &warpgroup, mlir::sm90::RoleOp op);
  Step runElect(Warpgroup &warpgroup, mlir::sm90::ElectOp op);
  Step runEnd(Warpgroup &warpgroup, mlir::sm90::EndOp op);

  // Elementwise.cpp
  Step runElementwise(Warpgroup &warpgroup, mlir::Operation *op);

  // Scalars.cpp
  Step runMemref(Warpgroup &warpgroup, mlir::Operation *op);
  Step runScalarWrite(Warpgroup &warpgroup, mlir::Operation *op);
  Step runConstant(Warpgroup &warpgroup, mlir::Operation *op);
  Step runAlloc(Warpgroup &warpgroup, mlir::sm90::AllocOp op);
  Step runSlice(Warpgroup &warpgroup, mlir::sm90::SliceOp op);
  Step runTensorMap(Warpgroup &warpgroup, mlir::sm90::TensorMapOp op);
  Step runBarrier(Warpgroup &warpgroup, mlir::sm90::BarrierOp op);
  Step runNamedBarrier(Warpgroup &warpgroup, mlir::sm90::NamedBarrierOp op);
  Step runClusterBarrier(Warpgroup &warpgroup, mlir::sm90::ClusterBarrierOp op);
  Step runProxyFence(Warpgroup &warpgroup);
  Step meet(Warpgroup &warpgroup, mlir::Operation *op, int id, int64_t expected, bool waits);
  Step meetRole(Warpgroup &warpgroup, mlir::Operation *op);

  // Rings.cpp
  Step runRing(Warpgroup &warpgroup, mlir::sm90::RingOp op);
  /// The ring in the shared memory of the CTA of rank `rank`.
  Ring &getRing(mlir::sm90::RingOp op, int64_t rank);
  Step runStageTile(Warpgroup &warpgroup, mlir::sm90::StageTileOp op);
  Step runStageNext(Warpgroup &warpgroup, mlir::sm90::StageNextOp op);
  Step runAcquire(Warpgroup &warpgroup, mlir::sm90::AcquireOp op);
  Step runAwait(Warpgroup &warpgroup, mlir::sm90::AwaitOp op);
  Step runArrival(Warpgroup &warpgroup, mlir::Operation *op, bool isRelease, int64_t part,
                  int64_t bytes);
  Step runRemoteArrival(Warpgroup &warpgroup, mlir::Operation *op, bool isRelease, int64_t part);
  Step checkRuns(mlir::Operation *op, int64_t rank);
  Step arrive(Mbarrier &barrier, mlir::Operation *op, int64_t turn, int64_t arrivals);
  Step waitFor(Warpgroup &warpgroup, mlir::Operation *op, Mbarrier &barrier, int64_t phases,
               bool isRemote = false);
  Step tryComplete(Mbarrier &barrier, mlir::Operation *op);
  Mbarrier *getFull(Warpgroup &warpgroup, mlir::Operation *op, mlir::Value ring, mlir::Value stage,
                    int64_t part);
  bool checkSlot(mlir::Operation *op, Ring &ring, const StageValue &stage);
  std::string describe(const Mbarrier &barrier);

  // Copies.cpp
  using Fetch = std::function<std::optional<float>(int64_t row, int64_t column)>;
  Step runCopy(Warpgroup &warpgroup, mlir::Operation *op, mlir::Value target, Fetch fetch);
  Step runDenseCopy(Warpgroup &warpgroup, mlir::sm90::CopyOp op);
  Step runCopyRows(Warpgroup &warpgroup, mlir::sm90::CopyRowsOp op);
  Step runHasGap(Warpgroup &warpgroup, mlir::sm90::HasGapOp op);
  Step runCopyPaged(Warpgroup &warpgroup, mlir::sm90::CopyPagedOp op);
  Fetch fetchRows(Warpgroup &warpgroup, mlir::Operation *op, ViewRef view, ViewRef indices,
                  int64_t first, int64_t column);
  Fetch fetchPaged(Warpgroup &warpgroup, mlir::Operation *op, ViewRef pool, ViewRef table,
                   int64_t token, int64_t column, int64_t limit);
  Step runCopyPublish(Warpgroup &warpgroup, mlir::sm90::CopyPublishOp op);
  Step runTmaLoad(Warpgroup &warpgroup, mlir::sm90::TmaLoadOp op);
  Step runBulkLoad(Warpgroup &warpgroup, mlir::sm90::BulkLoadOp op);
  Step deliver(Warpgroup &warpgroup, mlir::Operation *op, Place place, SharedMemory::Range range,
               Mbarrier &barrier, int64_t turn, int64_t bytes, std::function<Step()> move);
  Step runTmaStore(Warpgroup &warpgroup, mlir::sm90::TmaStoreOp op);
  Step runPrefetch(Warpgroup &warpgroup, mlir::sm90::PrefetchOp op);
  Step waitGroups(Warpgroup &warpgroup, Warpgroup::Queue &queue, Unit unit, int64_t pending);

  // Fragments.cpp
  Step runLoad(Warpgroup &warpgroup, mlir::sm90::LoadOp op);
  Step runLoadRows(Warpgroup &warpgroup, mlir::sm90::LoadRowsOp op);
  Step runLoadPaged(Warpgroup &warpgroup, mlir::sm90::LoadPagedOp op);
  Step runLoadElements(Warpgroup &warpgroup, mlir::sm90::LoadElementsOp op);
  Step runLoadPairs(Warpgroup &warpgroup, mlir::sm90::LoadPairsOp op);
  Step runStorePairs(Warpgroup &warpgroup, mlir::sm90::StorePairsOp op);
  Step fill(Warpgroup &warpgroup, mlir::Operation *op, Fetch fetch);
  /// The elements of `view`, of any type, at the indices that `place` says.
  using Place2D = std::function<std::vector<int64_t>(int64_t row, int64_t column)>;
  Step fill(Warpgroup &warpgroup, mlir::Operation *op, ViewRef view, Place2D place,
            unsigned result = 0);
  /// Calls `set` for each element of the result; false: it is outside of the buffer.
  using SetElement = std::function<bool(Tile &, int64_t element, int64_t row, int64_t column)>;
  Step fillEach(Warpgroup &warpgroup, mlir::Operation *op, SetElement set, unsigned result = 0);
  Step runStore(Warpgroup &warpgroup, mlir::sm90::StoreOp op);
  Step runStoreSlots(Warpgroup &warpgroup, mlir::sm90::StoreSlotsOp op);
  Step storeDense(Warpgroup &warpgroup, mlir::Operation *op, mlir::Value value, const View &view,
                  mlir::ValueRange offsets, bool transposed);
  Step storeElement(mlir::Operation *op, mlir::Value value, const Tile &tile, int64_t element,
                    const View &view, llvm::ArrayRef<int64_t> indices);
  /// Writes an element's bytes to global memory, unless another CTA wrote others.
  Step write(mlir::Operation *op, const View &view, char *target, const char *bytes);
  /// Global memory is what the kernels before work on, until the kernel has waited.
  Step checkDependency(Warpgroup &warpgroup, mlir::Operation *op);
  Step runStoreShared(Warpgroup &warpgroup, mlir::sm90::StoreSharedOp op);
  Step runLoadShared(Warpgroup &warpgroup, mlir::sm90::LoadSharedOp op);
  Step runStoreStaged(Warpgroup &warpgroup, mlir::sm90::StoreStagedOp op);
  Step runLoadCodeScales(Warpgroup &warpgroup, mlir::sm90::LoadCodeScalesOp op);
  Step runTransformCodes(Warpgroup &warpgroup, mlir::sm90::TransformCodesOp op);
  Step runLoadCodeWords(Warpgroup &warpgroup, mlir::sm90::LoadCodeWordsOp op);
  Step runLoadCodeColumns(Warpgroup &warpgroup, mlir::sm90::LoadCodeColumnsOp op);
  Step runScaleCodes(Warpgroup &warpgroup, mlir::sm90::ScaleCodesOp op);
  Step runOrderRuns(Warpgroup &warpgroup, mlir::sm90::OrderRunsOp op);
  Step runStoreRuns(Warpgroup &warpgroup, mlir::sm90::StoreRunsOp op);
  Step runPark(Warpgroup &warpgroup, mlir::sm90::ParkOp op);
  Step runUnpark(Warpgroup &warpgroup, mlir::sm90::UnparkOp op);
  Step accessParked(Warpgroup &warpgroup, mlir::Operation *op, const Place &place, bool isWrite);
  Step runZeroRows(Warpgroup &warpgroup, mlir::sm90::ZeroRowsOp op);
  Step runReduce(Warpgroup &warpgroup, mlir::sm90::ReduceOp op);
  Step reduceRows(Warpgroup &warpgroup, mlir::sm90::ReduceOp op);
  Step reduceSplit(Warpgroup &warpgroup, mlir::sm90::ReduceOp op);
  Step reduceColumns(Warpgroup &warpgroup, mlir::sm90::ReduceOp op);
  Step runSumGroups(Warpgroup &warpgroup, mlir::sm90::SumGroupsOp op);
  Step runBroadcast(Warpgroup &warpgroup, mlir::sm90::BroadcastOp op);
  Step runTakeColumns(Warpgroup &warpgroup, mlir::sm90::TakeColumnsOp op);
  Step runIota(Warpgroup &warpgroup, mlir::sm90::IotaOp op);
  Step runSplat(Warpgroup &warpgroup, mlir::sm90::SplatOp op);
  Step runWarpAny(Warpgroup &warpgroup, mlir::sm90::WarpAnyOp op);
  Step runRoleAny(Warpgroup &warpgroup, mlir::sm90::RoleAnyOp op);

  // Select.cpp
  Step readShared(Warpgroup &warpgroup, mlir::Operation *op, llvm::ArrayRef<mlir::Value> tiles);
  Step writeShare(Warpgroup &warpgroup, mlir::Operation *op, llvm::ArrayRef<mlir::Value> tiles);
  Step writeWord(mlir::Operation *op, const View &view, llvm::ArrayRef<int64_t> indices,
                 int64_t value);
  Step failOutside(mlir::Operation *op);
  Step writePositions(Warpgroup &warpgroup, mlir::Operation *op, mlir::Value out, mlir::Value row,
                      llvm::ArrayRef<uint32_t> positions);
  Step runSelectBegin(Warpgroup &warpgroup, mlir::sm90::SelectBeginOp op);
  Step runTestBits(Warpgroup &warpgroup, mlir::sm90::TestBitsOp op);
  Step runSetBits(Warpgroup &warpgroup, mlir::sm90::SetBitsOp op);
  Step runSelectCountUp(Warpgroup &warpgroup, mlir::sm90::SelectCountUpOp op);
  Step runSelectKeep(Warpgroup &warpgroup, mlir::sm90::SelectKeepOp op);
  Step runSelectHold(Warpgroup &warpgroup, mlir::sm90::SelectHoldOp op);
  Step checkZeros(Warpgroup &warpgroup, mlir::Operation *op, mlir::Value work);
  Step runSelectMeet(Warpgroup &warpgroup, mlir::sm90::SelectMeetOp op);
  Step meetPrograms(Warpgroup &warpgroup, mlir::sm90::SelectMeetOp op, const Place &list,
                    const Place &work);
  Step runSelectCut(Warpgroup &warpgroup, mlir::sm90::SelectCutOp op);
  Step runSelectWrite(Warpgroup &warpgroup, mlir::sm90::SelectWriteOp op);
  Step runSelectWriteInOrder(Warpgroup &warpgroup, mlir::sm90::SelectWriteInOrderOp op);

  // Products.cpp
  Step runWgmma(Warpgroup &warpgroup, mlir::sm90::WgmmaOp op);
  Step checkOperands(Warpgroup &warpgroup, mlir::sm90::WgmmaOp op, uint64_t sequence);
  Step readOperands(Warpgroup &warpgroup, mlir::sm90::WgmmaOp op, uint64_t sequence,
                    std::pair<int64_t, int64_t> columns);
  Step runWgmmaWait(Warpgroup &warpgroup, mlir::sm90::WgmmaWaitOp op);

  mlir::sm90::KernelOp kernel;
  std::vector<Argument> arguments;
  Options options;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  llvm::DenseMap<mlir::Operation *, int> owners; ///< first owner number of allocs and rings

  bool isDependent = false;                              ///< the kernel waits for those before it
  std::map<const char *, std::vector<uint32_t>> writers; ///< CTA + 1 of each byte of a buffer

  // State of the CTAs that run, one behind the other in memory.
  std::array<int64_t, 3> position; ///< of the first
  int64_t rank = 0;                ///< of the one that goes on
  int64_t sharedBytes = 0;         ///< of each
  std::unique_ptr<SharedMemory> memory;
  std::vector<Warpgroup> warpgroups;
  std::map<std::pair<mlir::Operation *, int64_t>, Ring> rings; ///< by rank
  std::map<std::pair<int64_t, int>, Meeting> meetings;
  std::vector<Pending> transfers; ///< TMA loads: in any order
  std::mt19937_64 random;
  std::vector<int64_t> priorities;
  unsigned policy = 0;
  uint64_t version = 1, steps = 0;
  std::optional<Finding> finding;
};

/// Columns of a fragment that a warpgroup holds: [first, end).
std::pair<int64_t, int64_t> getOwnColumns(const Warpgroup &warpgroup, mlir::Type fragment);
/// Which of them it writes; none if it is not its turn.
std::pair<int64_t, int64_t> getWrittenColumns(const Warpgroup &warpgroup, mlir::Type type);
/// Columns of a tensor; 1 for one of rank 1.
int64_t getColumns(mlir::Type type);
/// Checks the roles' budgets against RegisterEstimate.
std::optional<Finding> checkRegisters(mlir::sm90::KernelOp kernel);

} // namespace mlac::simulator

#endif // MLA_LIB_SIMULATOR_MACHINE_H
