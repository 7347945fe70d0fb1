//===- Options.cpp - the command line of mla-compile ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "EnumOption.h"
#include "ScheduleOptions.h"
#include "SelectionOptions.h"
#include "StudyOptions.h"

#include "Progress.h"

#include "mla/Driver/CompileTarget.h"
#include "mla/Driver/Emit.h"
#include "mla/Driver/LoadModel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace mlac;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

// --help lists them by name.
static cl::OptionCategory cacheCategory("Cache");
static cl::OptionCategory codeCategory("Machine code");
static cl::OptionCategory modelCategory("Model");
static cl::OptionCategory outputCategory("Output");
static const cl::OptionCategory *const kCategories[] = {
    &attentionCategory, &cacheCategory,  &codeCategory,     &modelCategory,
    &outputCategory,    &reportCategory, &scheduleCategory, &tuneCategory};

static cl::opt<std::string>
    input(cl::Positional, cl::Required, cl::cat(modelCategory),
          cl::desc("<config.json | folder | layer.safetensors | layer.pt2 | module.mlir>"));
static cl::opt<std::string> output("o", cl::value_desc("file"), cl::cat(outputCategory),
                                   cl::desc("Where to write (default: the input's name with .mlac; "
                                            "standard output for texts; - for standard output)"));
static const std::string defaultTarget = getTargetInfos().front().chip.str();
static const std::string targetHelp =
    "Machines, comma-separated: " + listTargets(", ") + " (default " + defaultTarget + ")";
static cl::opt<std::string> targets("target", cl::init(defaultTarget), cl::value_desc("list"),
                                    cl::cat(outputCategory), cl::desc(targetHelp));
static const std::string emitHelp = "Stop at " + joinNames(listLevels(), " or ") + " (default)";
static cl::opt<std::string> emit("emit", cl::init(kPackageLevel.str()), cl::value_desc("level"),
                                 cl::cat(outputCategory), cl::desc(emitHelp));
static cl::opt<int64_t> tensorParallel("tp", cl::init(1), cl::value_desc("ranks"),
                                       cl::cat(modelCategory),
                                       cl::desc("Ranks that share the heads (default 1)"));
static EnumOption<ActivationType>
    dtype("dtype", cl::init(ActivationType::BF16), cl::cat(modelCategory),
          cl::desc("Activations, weights and cache (default bf16):"),
          cl::values(clEnumValN(ActivationType::BF16, "bf16", "bfloat16"),
                     clEnumValN(ActivationType::F16, "f16", "IEEE half"),
                     clEnumValN(ActivationType::F32, "f32", "IEEE single, CPU only")));
static cl::opt<std::string> cacheFormat(
    "cache-format", cl::value_desc("name"), cl::cat(cacheCategory), cl::init("auto"),
    cl::desc(
        "Rows of the cache: auto (the activations' type, the default), bfloat16 (auto where the "
        "activations are bf16), mla_fp8_tensor or fp8 (e4m3, one scale per layer), fp8_ds_mla "
        "(656 bytes: e4m3 with four scales, bf16 rope) or split_ckv_kpe (latents of a page, "
        "then its rope keys, as FlashInfer has them); of deepseek_v4 every fp8 name is model1_584 "
        "(584 bytes: e4m3 with seven scales, bf16 rope); of keys and values of heads fp8 is "
        "kv_nhd_fp8 (e4m3, a scale per layer of keys and one of values)"));
static cl::opt<int64_t> rowWidth(
    "row-width", cl::value_desc("elements"), cl::init(0), cl::cat(cacheCategory),
    cl::desc("Refuse models whose cache rows have another width (latent and rope key): 576 is all "
             "that kernels like FlashMLA's take, which then may share the cache; default: any"));
static EnumOption<mlir::mla::ScaleRule>
    scaleRule("scale-rule", cl::init(mlir::mla::ScaleRule::Raw), cl::cat(cacheCategory),
              cl::desc("Scales of the rows' groups, when written (default raw):"),
              cl::values(clEnumValN(mlir::mla::ScaleRule::Raw, "raw", "amax / 448"),
                         clEnumValN(mlir::mla::ScaleRule::PowerOfTwo, "power_of_two",
                                    "rounded up to a power of two")));
static cl::opt<int64_t> pageSize("page-size", cl::init(64), cl::value_desc("tokens"),
                                 cl::cat(cacheCategory),
                                 cl::desc("Tokens of a cache page (default 64)"));
static EnumOption<mlir::mla::Form>
    form("form", cl::init(mlir::mla::Form::Auto), cl::cat(attentionCategory),
         cl::desc("Form of the attention (default auto):"),
         cl::values(clEnumValN(mlir::mla::Form::Auto, "auto", "by cost, where needed at run time"),
                    clEnumValN(mlir::mla::Form::Expanded, "expanded", "keys and values per head"),
                    clEnumValN(mlir::mla::Form::Absorbed, "absorbed", "attend on the latents")));
static cl::opt<int64_t> expandFrom(
    "expand-from", cl::init(0), cl::value_desc("tokens"), cl::cat(attentionCategory),
    cl::desc("With --form=auto: the expanded form where the longest query has so many new "
             "tokens, whatever is cached, instead of the form that costs less"));
static EnumOption<mlir::mla::AbsorbMode> absorb(
    "absorb", cl::init(mlir::mla::AbsorbMode::Online), cl::cat(attentionCategory),
    cl::desc("Where W_UK and W_UV go in the absorbed form (default online):"),
    cl::values(clEnumValN(mlir::mla::AbsorbMode::Online, "online", "products in the step"),
               clEnumValN(mlir::mla::AbsorbMode::Offline, "offline", "folded ahead on both sides"),
               clEnumValN(mlir::mla::AbsorbMode::HalfQuery, "half-query", "folded into W_UQ only"),
               clEnumValN(mlir::mla::AbsorbMode::HalfOutput, "half-output", "folded into W_O only"),
               clEnumValN(mlir::mla::AbsorbMode::Auto, "auto", "least predicted time")));
static cl::opt<std::string>
    functions("functions", cl::value_desc("list"), cl::cat(attentionCategory),
              cl::desc("Steps to compile, of prefill,decode,step (default prefill,decode; step "
                       "takes mixed batches)"));
static cl::opt<int64_t>
    decodeThreshold("decode-threshold", cl::init(1), cl::value_desc("tokens"),
                    cl::cat(attentionCategory),
                    cl::desc("Longest query that step attends to in the absorbed form: 1 "
                             "(default), or 1 + speculative tokens"));
static EnumOption<mlir::mla::SharePrefixMode> mixed(
    "mixed", cl::init(mlir::mla::SharePrefixMode::Never), cl::cat(attentionCategory),
    cl::desc("Attend to a prefix that all decodes share once, in the expanded form, and to the "
             "rest of each in the absorbed one (default never):"),
    cl::values(clEnumValN(mlir::mla::SharePrefixMode::Never, "never", "all in the absorbed form"),
               clEnumValN(mlir::mla::SharePrefixMode::Auto, "auto",
                          "in steps for which it is predicted to be faster"),
               clEnumValN(mlir::mla::SharePrefixMode::Always, "always",
                          "in steps whose decodes share any whole block of 64 tokens")));
static cl::opt<int64_t>
    overlapTokens("overlap-tokens", cl::init(-1), cl::value_desc("n"), cl::cat(attentionCategory),
                  cl::desc("Steps of at most so many tokens run launches that do not wait for each "
                           "other on two streams; 0: none do (64 on GPUs)"));
static cl::opt<int64_t>
    numSplits("num-splits", cl::init(0), cl::value_desc("n"), cl::cat(attentionCategory),
              cl::desc("Splits of the KV range; 0: from the batch and the machine"));
static cl::opt<bool> scheduleReport("schedule-report", cl::cat(reportCategory),
                                    cl::desc("Say which schedule each attention kernel gets, what "
                                             "it costs, and why not the others"));
static cl::opt<std::string> cpu("cpu", cl::init("x86-64-v3"), cl::value_desc("name"),
                                cl::cat(codeCategory),
                                cl::desc("x86-64-v3 (default), x86-64-v4 or native"));
static EnumOption<AssemblerKind>
    assembler("assembler", cl::init(AssemblerKind::Auto), cl::cat(codeCategory),
              cl::desc("Who makes cubins of PTX (default auto):"),
              cl::values(clEnumValN(AssemblerKind::Auto, "auto", "the first that is found"),
                         clEnumValN(AssemblerKind::Ptxas, "ptxas", "the toolkit's program"),
                         clEnumValN(AssemblerKind::NvPtxCompiler, "nvptxcompiler", "its library"),
                         clEnumValN(AssemblerKind::NvJitLink, "nvjitlink", "the linking library"),
                         clEnumValN(AssemblerKind::None, "none", "nobody: the package holds PTX")));
static cl::opt<std::string> ptxas("ptxas", cl::value_desc("path"), cl::cat(codeCategory),
                                  cl::desc("The ptxas to run (default: search)"));
static cl::opt<bool> allowSpills("allow-spills", cl::cat(codeCategory),
                                 cl::desc("Accept kernels that spill registers"));
static cl::opt<bool> allowWgmmaMessages("allow-wgmma-warnings", cl::cat(codeCategory),
                                        cl::desc("Accept the assembler's C75xx messages"));
static cl::opt<bool> normEpsFromConfig("norm-eps-from-config", cl::cat(modelCategory),
                                       cl::desc("rms_norm_eps for the latent norms too (default "
                                                "1e-6, as transformers does)"));
static EnumOption<CodesUse> keepCodes(
    "keep-codes", cl::init(CodesUse::Off), cl::ValueOptional, cl::cat(modelCategory),
    cl::desc("What projections read as the e4m3 codes and scales that quantization_config says a "
             "checkpoint has, where nothing else reads them (default off):"),
    cl::values(
        clEnumValN(CodesUse::Off, "off", "nothing: weights are dequantised when they are bound"),
        clEnumValN(CodesUse::Auto, "auto",
                   "weights that are predicted to be multiplied faster so on the first target"),
        clEnumValN(CodesUse::Weights, "weights",
                   "weights: half the bytes, which bound steps of up to 128 tokens; more tokens "
                   "dequantise in the step"),
        clEnumValN(CodesUse::Both, "both",
                   "weights, and activations quantised by token and group of 128: products of "
                   "codes, for weights with scales of blocks of 128 columns"),
        clEnumValN(CodesUse::Weights, "", "weights")));
namespace {
/// What absorption multiplies by.
enum class AbsorbedWeights { Values, Codes };
} // namespace
static EnumOption<AbsorbedWeights> absorbed(
    "absorbed", cl::init(AbsorbedWeights::Values), cl::cat(modelCategory),
    cl::desc("What the absorbed form multiplies by, where quantization_config says that a "
             "checkpoint has codes (default 16bit):"),
    cl::values(clEnumValN(AbsorbedWeights::Values, "16bit", "values in the activations' type"),
               clEnumValN(AbsorbedWeights::Codes, "codes",
                          "e4m3 codes, quantised again in the checkpoint's blocks when weights are "
                          "bound; with --keep-codes=both times activations that are codes")));
static cl::opt<bool> dequantisedWeights(
    "dequantised-weights", cl::cat(modelCategory),
    cl::desc("Weights will be bound in the activations' type, whatever the configuration's "
             "quantization_config says"));
static EnumOption<IndexerUse>
    indexer("indexer", cl::init(IndexerUse::Full), cl::cat(modelCategory),
            cl::desc("Whose selection of keys a sparse layer attends to (default full):"),
            cl::values(clEnumValN(IndexerUse::Full, "full", "its own indexer's"),
                       clEnumValN(IndexerUse::Shared, "shared",
                                  "an earlier layer's, which is the input 'selected'"),
                       clEnumValN(IndexerUse::None, "none",
                                  "all keys: dense attention, for up to index_topk tokens")));
/// What functions of a configuration take.
enum class LayerInputs { Hidden, Latents };
static EnumOption<LayerInputs> layerInputs(
    "inputs", cl::init(LayerInputs::Hidden), cl::cat(modelCategory),
    cl::desc("What the functions of a configuration take (default hidden):"),
    cl::values(clEnumValN(LayerInputs::Hidden, "hidden", "hidden states: a whole layer"),
               clEnumValN(LayerInputs::Latents, "latents",
                          "q_latent, latent and k_pe, normalised and not rotated: what "
                          "an engine hands to its attention back end, which projects "
                          "down itself")));
static cl::opt<int64_t> layer("layer", cl::init(0), cl::value_desc("index"), cl::cat(modelCategory),
                              cl::desc("Which layer, of a model whose layers differ in kind "
                                       "(DeepSeek-V4) or in their windows (gpt-oss; default: a "
                                       "package has all kinds, what is short of one the first "
                                       "layer)"));
static cl::opt<bool>
    roundStates("round-states", cl::cat(modelCategory),
                cl::desc("Round what tokens contribute to entries to the activations' type, as "
                         "engines do whose weights are quantised (deepseek_v4)"));
static cl::opt<bool>
    indexHadamard("index-hadamard", cl::cat(modelCategory),
                  cl::desc("Multiply the queries and keys of DeepSeek-V4's indexer by a Hadamard "
                           "matrix before they are rounded to e4m3, as some engines' caches have "
                           "them"));
static EnumOption<IndexFormat> indexFormat(
    "index-format", cl::init(IndexFormat::E4M3), cl::cat(modelCategory),
    cl::desc("How the keys of DeepSeek-V4's indexer are kept (default e4m3):"),
    cl::values(clEnumValN(IndexFormat::E4M3, "e4m3", "codes and a scale for each key"),
               clEnumValN(IndexFormat::MXFP4, "mxfp4",
                          "e2m1 codes and an exponent for each 32 of them: about half the bytes")));
static cl::opt<std::string>
    like("like", cl::value_desc("model_type"), cl::cat(modelCategory),
         cl::desc("Read a configuration whose model_type is not known as one of this known type: a "
                  "model with the same attention under another name"));
static cl::opt<std::string>
    archiveConfig("config", cl::value_desc("file"), cl::cat(modelCategory),
                  cl::desc("Of a .pt2 archive: its model's config.json (default: the extra file "
                           "config.json of the archive)"));
static cl::opt<std::string>
    weightsFile("write-weights", cl::value_desc("file"), cl::cat(modelCategory),
                cl::desc("Of a .pt2 archive: where its layer's weights go, as a safetensors file "
                         "for mla-run --weights and for callers that bind them"));
static cl::opt<std::string>
    regionsFile("partial", cl::value_desc("file"), cl::cat(modelCategory),
                cl::desc("Of a .pt2 archive of a whole model: compile its attention layers, which "
                         "must be alike, and write their places in the graph as JSON (module, "
                         "input, output, weights), and the attention that is left to it"));
static cl::opt<std::string>
    cachedFile("cached", cl::value_desc("file"), cl::cat(modelCategory),
               cl::desc("Of a .pt2 archive of a whole model: compile what attends in it, over a "
                        "cache, and write which nodes of the graph it replaces as JSON; the rest "
                        "of the graph stays the caller's (mlac.cached)"));
static cl::opt<std::string>
    masksFile("mask-inputs", cl::value_desc("file"), cl::cat(modelCategory),
              cl::desc("Of a .pt2 archive of layers: write which inputs of the graph are taken as "
                       "masks, causal with the configuration's window, and which as rope's "
                       "cosines and sines, of the configuration's frequencies, as JSON"));
static cl::opt<bool> graphChecked(
    "graph-checked", cl::cat(modelCategory),
    cl::desc(
        "Of a .pt2 archive: the caller has seen to what the graph does not prove "
        "(masks and rope's tables that are inputs), as mlac.export and mlac.cached do: no warnings "
        "of it"));
static cl::opt<bool>
    costReport("cost-report", cl::cat(reportCategory),
               cl::desc("Print FLOPs, bytes and predicted time of every form, to standard "
                        "output where the result is a file"));
static cl::opt<std::string>
    explanation("explain", cl::value_desc("file.html"), cl::cat(reportCategory),
                cl::desc("Write a page of tables and figures beside the package: cost, forms, "
                         "roofline, schedules, shared memory and registers"));
static cl::opt<bool> timing("timing", cl::cat(reportCategory),
                            cl::desc("Print the time of every stage"));
static cl::opt<bool> quiet("quiet", cl::cat(reportCategory), cl::desc("No progress lines"));

static const char kOverview[] =
    "mla-compile: compiles Multi-head Latent Attention into a package of kernels and launch plans\n"
    "\n"
    "  The input is a model's config.json or its folder, a .safetensors file that carries one in\n"
    "  its metadata, an attention module that torch.export saved (.pt2), or a module in the mla\n"
    "  dialect. mla-run looks into packages, checks and measures them.\n";

static const char kExamples[] = R"(
Examples:
  mla-compile config.json --target=cpu,sm_90a --tp=8 -o model.mlac
      prefill and decode of one of 8 ranks, for this CPU's family and for Hopper
  mla-compile deepseek_v4/config.json --layer=2 -o selected.mlac
      one kind of the layers of a model whose layers differ, instead of all kinds in one package
  mla-compile config.json --cost-report --emit=mla
      what each form costs, and the IR with the decisions
  mla-compile config.json --target=sm_90a --functions=decode --emit=ptx
      stop on the way: mla, tile, sm90, nvvm, llvm, ptx
  mla-compile config.json --target=sm_90a --emit=cubin -o kernels/
      one file per kernel
  mla-compile config.json --target=sm_90a --schedule-report --emit=tile -o /dev/null
      which schedule the attention gets, its predicted time, and why not the others
  mla-compile config.json --target=sm_90a --schedule=relay --schedule-option=early=1
      force what the cost model would choose
  mla-compile config.json --target=sm_90a --tune --tune-batch=128 --tune-context=8192
      measure a few dozen schedules of each attention kernel on this machine's GPU and keep
      the fastest; a run that was stopped goes on where it was
  mla-compile layer.safetensors --dtype=f32 && mla-run check layer.mlac --weights=layer.safetensors
      a layer with its configuration, weights and outputs: compile and check
  mla-compile layer.pt2 --config=config.json --dtype=f32 --write-weights=layer.safetensors
      a layer that torch.export saved: what its graph computes, and its weights

Exit code: 0 written, 1 error. A file appears under its name when it is complete.
Without a CUDA toolkit, scripts/get-assembler.sh installs the assembler that sm_90a needs.
)";

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static std::vector<std::string> splitList(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> items;
  text.split(items, ',', -1, /*KeepEmpty=*/false);
  return {items.begin(), items.end()};
}

static bool readFunctions(CompileOptions &options) {
  options.functions = splitList(functions);
  if (functions.getNumOccurrences() > 0 && options.functions.empty())
    return fail("--functions: expected at least one of prefill, decode, step");
  for (const std::string &name : options.functions)
    if (llvm::count(options.functions, name) > 1)
      return fail("--functions: '" + name + "' is named twice");
  return true;
}

static std::string describeFunctions(const CompileOptions &options) {
  return options.functions.empty() ? "--functions is prefill,decode"
                                   : "--functions is " + llvm::join(options.functions, ",");
}

static bool readTargets(CompileOptions &options) {
  options.targets = splitList(targets);
  if (options.targets.empty())
    return fail("--target: expected at least one of " + listTargets(", "));
  for (const std::string &name : options.targets) {
    const CompileTarget *target = findCompileTarget(name);
    if (!target)
      return fail("--target: expected " + listTargets() + ", got '" + name + "'");
    if (llvm::count(options.targets, name) > 1)
      return fail("--target: '" + name + "' is named twice");
    if (!target->takesF32() && dtype == ActivationType::F32)
      return fail(
          "--dtype=f32 is for " +
          listTargets(" and ", [](const CompileTarget &other) { return other.takesF32(); }) +
          " only; " + name + " needs bf16 or f16");
  }
  return true;
}

/// What only a target's own options can say.
static bool checkTargets(const CompileOptions &options, llvm::StringRef level) {
  std::string error;
  for (const std::string &name : options.targets)
    if (!findCompileTarget(name)->check(options, level, error))
      return fail(error);
  return true;
}

/// More than any machine has processors; the runtime's limit for num_sms, too.
static constexpr int64_t kMostSplits = 65536;
/// Far above every crossover of the forms (mla.md section 12).
static constexpr int64_t kMostDecodeTokens = 65536;

/// Names of inference engines (vLLM's kv_cache_dtype) for rows of the activations' type.
static bool readCacheFormat(std::string &format) {
  if (cacheFormat == "bfloat16" && dtype != ActivationType::BF16)
    return fail(llvm::Twine("--cache-format=bfloat16: expected --dtype=bf16, got ") +
                (dtype == ActivationType::F16 ? "f16" : "f32"));
  if (cacheFormat != "auto" && cacheFormat != "bfloat16")
    format = cacheFormat;
  return true;
}

static bool readOptions(CompileOptions &options) {
  if (!readTargets(options) || !readScheduling(options))
    return false;
  if (tensorParallel < 1)
    return fail("--tp: expected at least 1 rank, got " + llvm::Twine(tensorParallel));
  if (pageSize < 1)
    return fail("--page-size: expected at least 1 token, got " + llvm::Twine(pageSize));
  if (decodeThreshold < 1 || decodeThreshold > kMostDecodeTokens)
    return fail("--decode-threshold: expected 1 to " + llvm::Twine(kMostDecodeTokens) + ", got " +
                llvm::Twine(decodeThreshold));
  if (rowWidth < 0)
    return fail("--row-width: expected at least 0 elements, got " +
                llvm::Twine(rowWidth.getValue()));
  if (numSplits < 0 || numSplits > kMostSplits)
    return fail("--num-splits: expected 0 to " + llvm::Twine(kMostSplits) + ", got " +
                llvm::Twine(numSplits));
  if (mixed != mlir::mla::SharePrefixMode::Never && options.batchInvariant >= 0)
    return fail("--mixed and --batch-invariant exclude each other: what requests share depends "
                "on the batch");
  if (expandFrom.getNumOccurrences() > 0 && (expandFrom < 1 || form != mlir::mla::Form::Auto))
    return fail("--expand-from: expected at least 1 token and --form=auto, got " +
                llvm::Twine(expandFrom) + " and --form=" + stringifyForm(form));
  if (overlapTokens.getNumOccurrences() > 0 && overlapTokens < 0)
    return fail("--overlap-tokens: expected at least 0 tokens, got " +
                llvm::Twine(overlapTokens.getValue()));
  if (!readSelection(options))
    return false;
  options.parsing = {tensorParallel, normEpsFromConfig, dequantisedWeights, like, indexer, layer};
  std::string format;
  if (!readFunctions(options) || !readCacheFormat(format))
    return false;
  bool hasStep = llvm::is_contained(options.functions, "step");
  if (decodeThreshold.getNumOccurrences() > 0 && (!hasStep || !cachedFile.empty()))
    return fail("--decode-threshold does not apply: it is of a layer's function 'step', and " +
                (hasStep ? "--cached compiles no layers" : describeFunctions(options)));
  options.import = {dtype,
                    pageSize,
                    form,
                    format,
                    scaleRule,
                    hasStep ? decodeThreshold : 0,
                    layerInputs == LayerInputs::Latents,
                    indexHadamard,
                    roundStates,
                    indexFormat};
  options.archiveConfig = archiveConfig;
  options.weightsFile = weightsFile;
  options.regionsFile = regionsFile;
  options.masksFile = masksFile;
  options.cachedFile = cachedFile;
  options.isGraphChecked = graphChecked;
  options.expandFrom = expandFrom;
  options.absorb = absorb;
  options.keepCodes = keepCodes;
  options.requantisesAbsorbed = absorbed == AbsorbedWeights::Codes;
  options.numSplits = numSplits;
  options.mixed = mixed;
  options.overlapTokens = overlapTokens;
  options.cpu = cpu;
  options.assembler.kind = assembler;
  options.assembler.ptxasPath = ptxas;
  options.allowSpills = allowSpills;
  options.allowWgmmaMessages = allowWgmmaMessages;
  return true;
}

/// A module says itself what these options would tell an import.
static bool checkModuleOptions() {
  if (!isModuleFile(input))
    return true;
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &tensorParallel, &dtype, &cacheFormat, &scaleRule, &pageSize, &decodeThreshold,
           &normEpsFromConfig, &dequantisedWeights, &like, &indexer, &layerInputs, &layer,
           &indexHadamard, &roundStates, &indexFormat})
    if (option->getNumOccurrences() > 0)
      return fail("--" + option->ArgStr + " is for configurations: the module '" + input +
                  "' is compiled as it is");
  return true;
}

/// What only an archive has.
static bool checkArchiveOptions() {
  for (const cl::opt<std::string> *option :
       {&archiveConfig, &weightsFile, &regionsFile, &masksFile, &cachedFile})
    if (option->getNumOccurrences() > 0 && !isArchiveFile(input))
      return fail("--" + option->ArgStr +
                  " is for archives of torch.export (.pt2), the input is '" + input + "'");
  for (const cl::opt<std::string> *option :
       {&archiveConfig, &weightsFile, &regionsFile, &masksFile})
    if (option->getNumOccurrences() > 0 && cachedFile.getNumOccurrences() > 0)
      return fail("--cached takes no layers out of the graph: --" + option->ArgStr +
                  " does not apply");
  if (graphChecked && !isArchiveFile(input))
    return fail("--graph-checked is for archives of torch.export (.pt2), the input is '" + input +
                "'");
  return true;
}

/// The input's name with the extension of packages.
static std::string getDefaultOutput(llvm::StringRef input) {
  llvm::StringRef stem = getModelStem(input), name = llvm::sys::path::filename(stem);
  if (name == "." || name == "..") // a folder without a name of its own
    return "model.mlac";
  return (stem + ".mlac").str();
}

static bool readInvocation(Invocation &invocation) {
  if (quiet)
    silenceProgress();
  const std::string &level = emit;
  if (!llvm::is_contained(listLevels(), level))
    return fail("--emit: expected " + joinNames(listLevels(), " or ") + ", got '" + level + "'");
  invocation.input = input;
  invocation.output = output;
  if (level == kPackageLevel && output.empty())
    invocation.output = getDefaultOutput(invocation.input);
  if (level == kPackageLevel && output == kStandardOutput &&
      llvm::sys::Process::StandardOutIsDisplayed())
    return fail("-o -: a package is binary, and standard output is a terminal");
  invocation.level = level;
  invocation.namesLayer = layer.getNumOccurrences() > 0;
  invocation.rowWidth = rowWidth;
  if (scaleRule.getNumOccurrences() > 0)
    invocation.scaleRule = scaleRule;
  invocation.wantsTiming = timing;
  bool hasName = !output.empty() && output != kStandardOutput;
  std::string named = hasName ? output.getValue() : getDefaultOutput(invocation.input);
  if (!readTuning(named, quiet, invocation.tuning))
    return false;
  const CompileTarget *target = findCompileTarget(targets);
  if (invocation.tuning && !(target && isScheduled(*target)))
    return fail("--tune is for --target=" + listTargets(" or ", isScheduled) + " alone, got " +
                targets);
  invocation.wantsScheduleReport = scheduleReport;
  if (!explanation.empty() && level != kPackageLevel)
    return fail("--explain: a page is of a package, got --emit=" + level);
  if (explanation == kStandardOutput)
    return fail("--explain: expected a file of its own, got '" + explanation + "'");
  invocation.explanation = explanation;
  if (!readSimulation(invocation.simulation))
    return false;
  // Standard output is for what was asked for; reports, unless it takes something else.
  bool isTaken =
      invocation.output == kStandardOutput || (invocation.output.empty() && !isBinaryLevel(level));
  invocation.reports = isTaken ? &llvm::errs() : &llvm::outs();
  invocation.options.costReport = costReport ? invocation.reports : nullptr;
  return checkModuleOptions() && checkArchiveOptions() && readOptions(invocation.options) &&
         checkTargets(invocation.options, level);
}

/// An empty name is a variable of a shell that is not set; the default would be taken for it.
static bool checkFileNames() {
  if (input.empty())
    return fail("expected the name of the input, got none");
  for (const cl::opt<std::string> *option :
       {&output, &explanation, &archiveConfig, &weightsFile, &regionsFile, &masksFile, &cachedFile})
    if (option->getNumOccurrences() > 0 && option->empty())
      return fail((option->ArgStr.size() == 1 ? "-" : "--") + option->ArgStr +
                  ": expected the name of a file, got none");
  return true;
}

/// Of an option that has one value the last would count, and nobody would see the others. (LLVM
/// lets an option come again.)
static bool checkOccurrences() {
  llvm::StringRef found; // the first by name: the map has no order
  for (const auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() > 1 && option->getNumOccurrencesFlag() == cl::Optional &&
        (found.empty() || name < found))
      found = name;
  return found.empty() ||
         fail((found.size() == 1 ? "-" : "--") + found + ": expected once, got it again");
}

bool mlac::readInvocation(int argc, char **argv, Invocation &invocation) {
  // Not before main: what is registered then, every program of mlac-tools prints.
  static cl::extrahelp scheduleKeys(listScheduleKeys());
  static cl::extrahelp examples(kExamples);
  cl::HideUnrelatedOptions(kCategories);
  cl::SetVersionPrinter([](llvm::raw_ostream &stream) { stream << getCompilerVersion() << "\n"; });
  cl::ParseCommandLineOptions(argc, argv, kOverview);
  return checkOccurrences() && checkFileNames() && ::readInvocation(invocation);
}
