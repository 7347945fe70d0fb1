//===- PassFuzzer.cpp - every pass on every given module --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   mlac-pass-fuzzer <file with a pass per line> <module.mlir>...
//
// The rule for each pass and each module that the verifier takes: the pass refuses it
// with an error, or its result verifies. A crash, an endless run, a failure without a word
// and a result that does not verify break it; each is printed as a line
//
//   FAIL <tab> module <tab> pass <tab> what happened
//
// Every run has a process of its own, forked from one that has parsed the module. Crashes
// without a frame of this program's between pass manager and fault are MLIR's own: they
// are counted and are no failures.
//
//===----------------------------------------------------------------------===//

#include "mla/RegisterAll.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <csignal>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;

// The linker's: the bounds of this program's code.
extern "C" char __executable_start, etext;

namespace {
/// How a process ended; signals are added to Crashed.
enum Outcome { Fine, Refused, Silent, Invalid, Unknown, Unparsed, CrashedOutside, Crashed = 64 };

/// Far above what a pass takes (a second for DeepSeek-V3) and needs.
constexpr rlim_t kMaxSeconds = 20, kMaxBytes = rlim_t(6) << 30;
constexpr int kMaxFrames = 256;

struct Totals {
  int modules = 0, parsed = 0, runs = 0, refused = 0, outside = 0, failures = 0;
};
} // namespace

/// Frames of this program when MLIR is called.
static int ownFrames = 0;

__attribute__((noinline)) static int countOwnFrames() {
  std::array<void *, kMaxFrames> frames;
  int count = backtrace(frames.data(), kMaxFrames), own = 0;
  for (int i = 0; i < count; ++i)
    own += frames[i] >= &__executable_start && frames[i] < &etext;
  return own;
}

static void onCrash(int signal) {
  constexpr int handler = 1;
  bool isOurs = countOwnFrames() > ownFrames + handler;
  _exit(isOurs ? Crashed + signal : CrashedOutside);
}

static void limitProcess() {
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  rlimit memory{kMaxBytes, kMaxBytes}, time{kMaxSeconds, kMaxSeconds};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CPU, &time);
  // For recursion without end.
  static std::array<char, 1 << 18> memoryOfHandler;
  stack_t stack{};
  stack.ss_sp = memoryOfHandler.data();
  stack.ss_size = memoryOfHandler.size();
  sigaltstack(&stack, nullptr);
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTRAP}) {
    struct sigaction action {};
    action.sa_handler = onCrash;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
}

/// Runs `body` in a process of its own; its outcome, or the signal that ended it.
static int runApart(llvm::function_ref<int()> body) {
  pid_t child = fork();
  if (child == 0) {
    limitProcess();
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : Crashed + WTERMSIG(status);
}

static std::string describe(int outcome) {
  switch (outcome) {
  case Silent:
    return "fails without an error";
  case Invalid:
    return "its result does not verify";
  case Unknown:
    return "is no pass";
  case Crashed + SIGXCPU:
  case Crashed + SIGKILL:
    return "runs for more than " + std::to_string(kMaxSeconds) + " s";
  default:
    return std::string("crashes: ") + strsignal(outcome - Crashed);
  }
}

static void record(int outcome, llvm::StringRef file, llvm::StringRef pass, Totals &totals) {
  ++totals.runs;
  totals.refused += outcome == Refused;
  totals.outside += outcome == CrashedOutside;
  bool isFailure =
      outcome == Silent || outcome == Invalid || outcome == Unknown || outcome > Crashed;
  totals.failures += isFailure;
  if (isFailure)
    llvm::outs() << "FAIL\t" << file << "\t" << pass << "\t" << describe(outcome) << "\n";
}

/// Adds a pass of modules, or one of what modules hold.
static LogicalResult addPass(PassManager &passes, llvm::StringRef pass) {
  ScopedDiagnosticHandler handler(passes.getContext(), [](Diagnostic &) { return success(); });
  for (llvm::StringRef op : {"", "tile.kernel", "sm90.kernel", "llvm.func", "func.func"}) {
    std::string text = op.empty() ? pass.str() : (op + "(" + pass + ")").str();
    if (succeeded(parsePassPipeline(text, passes, llvm::nulls())))
      return success();
  }
  return failure();
}

static int runPass(ModuleOp module, llvm::StringRef pass) {
  MLIRContext *context = module.getContext();
  int errors = 0;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
    return success();
  });
  PassManager passes(context, ModuleOp::getOperationName());
  passes.enableVerifier(false);
  if (failed(addPass(passes, pass)))
    return Unknown;
  ownFrames = countOwnFrames();
  if (failed(passes.run(module)))
    return errors ? Refused : Silent;
  return succeeded(verify(module)) ? Fine : Invalid;
}

static OwningOpRef<ModuleOp> parse(MLIRContext &context, llvm::StringRef file) {
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  ownFrames = countOwnFrames();
  if (failed(parseSourceFile(file, module->getBody(), ParserConfig(&context))))
    return {};
  // The file's own module, if it has one.
  auto nested = llvm::hasSingleElement(*module->getBody())
                    ? dyn_cast<ModuleOp>(module->getBody()->front())
                    : ModuleOp();
  if (!nested)
    return module;
  nested->remove();
  return nested;
}

/// In a process whose memory holds the module.
static void runPasses(MLIRContext &context, llvm::StringRef file,
                      llvm::ArrayRef<llvm::StringRef> passes, Totals &totals) {
  int outcome = runApart([&] { return parse(context, file) ? static_cast<int>(Fine) : Unparsed; });
  if (outcome != Fine && outcome != Unparsed)
    return record(outcome, file, "", totals);
  ++totals.modules;
  if (outcome == Unparsed)
    return;
  ++totals.parsed;
  OwningOpRef<ModuleOp> module = parse(context, file);
  for (llvm::StringRef pass : passes)
    record(runApart([&] { return runPass(*module, pass); }), file, pass, totals);
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  mlac::registerAllDialects(registry);
  mlac::registerAllPasses();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  (void)countOwnFrames(); // loads what it needs, before memory is limited
  auto list = argc > 1
                  ? llvm::MemoryBuffer::getFile(argv[1])
                  : llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>(std::errc::invalid_argument);
  if (!list) {
    llvm::errs() << "usage: mlac-pass-fuzzer <file with a pass per line> <module.mlir>...\n";
    return 2;
  }
  llvm::SmallVector<llvm::StringRef> passes;
  (*list)->getBuffer().split(passes, '\n', -1, /*KeepEmpty=*/false);
  Totals totals;
  for (int i = 2; i < argc; ++i)
    runPasses(context, argv[i], passes, totals);
  llvm::outs() << "modules " << totals.modules << " parsed " << totals.parsed << " runs "
               << totals.runs << " refused " << totals.refused << " crashes of MLIR "
               << totals.outside << " failures " << totals.failures << "\n";
  return totals.failures ? 1 : 0;
}
