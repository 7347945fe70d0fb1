//===- LoadModel.cpp - from a file to an mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/LoadModel.h"

#include "mla/Driver/WriteWeights.h"
#include "mla/Import/CheckpointTensors.h"
#include "mla/Import/ConfigWarnings.h"
#include "mla/Import/InputFile.h"
#include "mla/Import/RaiseGraph.h"
#include "mla/Import/TorchArchive.h"
#include "mla/Package/ModelDescription.h"

#include "mla/Dialect/Mla/IR/WeightScales.h"
#include "mla/Dialect/Mla/Transforms/CodeTiles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Machine/TargetDescription.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <array>
#include <map>

using namespace mlir;
using namespace mlac;

static InFlightDiagnostic emitFileError(MLIRContext &context, StringRef path) {
  return emitError(getFileLoc(context, path));
}

/// Emits every line of `problems` as an error of its own.
static LogicalResult emitLines(MLIRContext &context, StringRef path, StringRef problems) {
  SmallVector<StringRef> lines;
  problems.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines)
    emitFileError(context, path) << line;
  return failure();
}

/// The header of a safetensors file.
static FailureOr<llvm::json::Object> readHeader(MLIRContext &context, StringRef path,
                                                StringRef content) {
  constexpr size_t kLengthBytes = sizeof(uint64_t);
  if (content.size() < kLengthBytes)
    return emitFileError(context, path)
           << "is no safetensors file: it has only " << content.size() << " bytes";
  uint64_t headerBytes = llvm::support::endian::read64le(content.data());
  if (headerBytes > content.size() - kLengthBytes)
    return emitFileError(context, path) << "is damaged: its header of " << headerBytes
                                        << " bytes exceeds the file of " << content.size();
  llvm::Expected<llvm::json::Value> header =
      llvm::json::parse(content.substr(kLengthBytes, headerBytes));
  if (!header)
    return emitFileError(context, path)
           << "is damaged: its header is no JSON (" << llvm::toString(header.takeError()) << ")";
  llvm::json::Object *root = header->getAsObject();
  if (!root)
    return emitFileError(context, path) << "is damaged: its header is no JSON object";
  return std::move(*root);
}

/// The configuration in a safetensors header's metadata.
static FailureOr<std::string> readEmbeddedConfig(MLIRContext &context, StringRef path,
                                                 const llvm::json::Object &header) {
  const llvm::json::Object *metadata = header.getObject("__metadata__");
  std::optional<StringRef> config = metadata ? metadata->getString("config") : std::nullopt;
  if (!config)
    return emitFileError(context, path)
           << "has no 'config' in its header metadata; give the model's config.json instead";
  return config->str();
}

/// Empty where the header gives no list of integers.
static TensorShape readShape(const llvm::json::Value &tensor) {
  TensorShape shape;
  const llvm::json::Object *fields = tensor.getAsObject();
  if (const llvm::json::Array *sizes = fields ? fields->getArray("shape") : nullptr)
    for (const llvm::json::Value &size : *sizes)
      shape.push_back(size.getAsInteger().value_or(0));
  return shape;
}

/// Compares the attention modules in a file with the configuration beside them:
/// what cannot be bound later is refused now. A module is what shares a prefix
/// with a kv_b_proj, or of groups of heads with a k_proj.
static LogicalResult checkTensors(MLIRContext &context, StringRef path,
                                  const llvm::json::Object &header, const ModelConfig &config) {
  StringRef known = config.grouped ? "k_proj.weight" : "kv_b_proj.weight";
  for (const auto &[key, unused] : header) {
    StringRef prefix = key;
    if (llvm::none_of(getStoredNames(known),
                      [&](StringRef name) { return prefix.consume_back(name); }))
      continue;
    std::map<std::string, TensorShape> shapes; // sorted: errors come in one order
    for (const auto &[other, tensor] : header)
      if (StringRef name = other; name.consume_front(prefix) && name != "__metadata__")
        shapes[name.str()] = readShape(tensor);
    SmallVector<NamedShape> tensors;
    for (const auto &[name, shape] : shapes)
      tensors.push_back({name, shape});
    if (llvm::Error error = checkCheckpointShapes(config, tensors))
      return emitLines(context, path, llvm::toString(std::move(error)));
  }
  return success();
}

/// Problems of the configuration at their places in it.
static LogicalResult emitProblems(MLIRContext &context, StringRef path, llvm::Error problems) {
  llvm::handleAllErrors(std::move(problems), [&](const ConfigError &error) {
    for (const auto &[message, place] : error.problems)
      emitError(FileLineColLoc::get(&context, path, place.line, place.column)) << message;
  });
  return failure();
}

/// What of a configuration others read otherwise.
static void emitWarnings(MLIRContext &context, StringRef path, StringRef text,
                         const ModelConfig &config) {
  for (const auto &[message, place] : findConfigWarnings(text, config))
    emitWarning(FileLineColLoc::get(&context, path, place.line, place.column)) << message;
}

/// Steps that can be asked for, whether or not they are imported.
static LogicalResult checkStepNames(MLIRContext &context, StringRef path,
                                    const std::vector<std::string> &names) {
  const std::array<StringRef, 3> kSteps = {"prefill", "decode", "step"};
  for (StringRef name : names)
    if (!llvm::is_contained(kSteps, name))
      return emitFileError(context, path)
             << "no function '" << name << "'; there are: " << llvm::join(kSteps, " ");
  return success();
}

static OwningOpRef<ModuleOp> loadConfig(MLIRContext &context, StringRef path, StringRef text,
                                        const CompileOptions &options) {
  if (failed(checkStepNames(context, path, options.functions)))
    return {};
  llvm::Expected<ModelConfig> config = parseModelConfig(text, options.parsing);
  if (config) {
    emitWarnings(context, path, text, *config);
    return importConfig(getFileLoc(context, path), *config, options.import);
  }
  (void)emitProblems(context, path, config.takeError());
  return {};
}

static OwningOpRef<ModuleOp> parseModule(MLIRContext &context, StringRef path, StringRef content,
                                         const CompileOptions &) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(content, ParserConfig(&context), path);
  // The parser gives a module that nobody wrote, around functions alone, no line.
  auto place = module ? dyn_cast<FileLineColLoc>(module->getLoc()) : FileLineColLoc();
  if (place && place.getLine() == 0)
    module->getOperation()->setLoc(getFileLoc(context, path));
  return module;
}

/// Whether a function is no step of the model's but the runtime's own: all that it
/// takes are caches and what says which pages.
static bool isOfCache(func::FuncOp function) {
  return llvm::all_of(function.getArgumentTypes(),
                      [](Type type) { return isa<mla::CacheType, mla::BatchType>(type); });
}

/// The step that users know the function as.
static StringRef getStepName(func::FuncOp function) {
  auto whole = function->getAttrOfType<StringAttr>(mla::kDecodesOfAttr);
  return whole ? whole.getValue() : function.getSymName();
}

/// Erases the steps that were not asked for.
static LogicalResult keepFunctions(ModuleOp module, const std::vector<std::string> &names) {
  if (names.empty())
    return success();
  for (const std::string &name : names) {
    if (module.lookupSymbol<func::FuncOp>(name))
      continue;
    InFlightDiagnostic error = module.emitError("no function '") << name << "'; there are:";
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (!isOfCache(function) && getStepName(function) == function.getSymName())
        error << " " << function.getSymName();
    return error;
  }
  for (func::FuncOp function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (!llvm::is_contained(names, getStepName(function)) && !isOfCache(function))
      function.erase();
  return success();
}

/// A layer's file: its configuration, which has no lines, and tensors that must agree with it.
static OwningOpRef<ModuleOp> loadLayer(MLIRContext &context, StringRef path, StringRef content,
                                       const CompileOptions &options) {
  FailureOr<llvm::json::Object> header = readHeader(context, path, content);
  if (failed(header))
    return {};
  FailureOr<std::string> text = readEmbeddedConfig(context, path, *header);
  if (failed(text) || failed(checkStepNames(context, path, options.functions)))
    return {};
  llvm::Expected<ModelConfig> config = parseModelConfig(*text, options.parsing);
  if (!config) {
    llvm::handleAllErrors(config.takeError(), [&](const ConfigError &error) {
      for (const ConfigProblem &problem : error.problems)
        emitFileError(context, path) << problem.message;
    });
    return {};
  }
  for (const ConfigProblem &warning : findConfigWarnings(*text, *config))
    emitWarning(getFileLoc(context, path)) << warning.message;
  OwningOpRef<ModuleOp> module = importConfig(getFileLoc(context, path), *config, options.import);
  if (!module || failed(checkTensors(context, path, *header, *config)))
    return {};
  return module;
}

//===----------------------------------------------------------------------===//
// Archives
//===----------------------------------------------------------------------===//

/// The configuration of an archive's model: the file that was named, or the archive's own.
static FailureOr<ModelConfig> loadArchiveConfig(MLIRContext &context, StringRef path,
                                                const TorchArchive &archive,
                                                const CompileOptions &options) {
  std::string place = options.archiveConfig;
  std::optional<std::string> text;
  if (!place.empty()) {
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(place);
    if (!file)
      return emitFileError(context, place)
             << "cannot be read: " << llvm::toString(file.takeError());
    text = (*file)->getBuffer().str();
  } else {
    constexpr StringLiteral kOwn = "config.json";
    place = (path + "/extra/" + kOwn).str();
    llvm::Expected<std::optional<std::string>> own = archive.readExtra(kOwn);
    if (!own)
      return emitFileError(context, path) << llvm::toString(own.takeError());
    text = std::move(*own);
  }
  if (!text)
    return emitFileError(context, path)
           << "does not hold its model's configuration, which says what its graph does not (rotary "
              "frequencies, positions): give it with --config=config.json, or save the archive "
              "with "
              "extra_files={'config.json': ...}, as mlac.export does";
  llvm::Expected<ModelConfig> config = parseModelConfig(*text, options.parsing);
  if (config && config->sharedKeys)
    return emitFileError(context, path) << "layers of model type " << config->modelType
                                        << " are not found in graphs: compile its configuration";
  if (config) {
    emitWarnings(context, place, *text, *config);
    return std::move(*config);
  }
  (void)emitProblems(context, place, config.takeError());
  return failure();
}

/// What is wanted of an archive beside the module.
static llvm::Error writeParts(const TorchArchive &archive, const RaisedLayer &layer,
                              StringRef config, const CompileOptions &options) {
  if (!options.weightsFile.empty())
    if (llvm::Error error = writeWeights(archive, layer, config, options.weightsFile))
      return error;
  if (!options.masksFile.empty())
    if (llvm::Error error = writeInputs(layer, options.masksFile))
      return error;
  return options.regionsFile.empty() ? llvm::Error::success()
                                     : writeRegions(layer, options.regionsFile);
}

/// Of masks that are inputs, whose numbers nobody has seen: each once.
static void warnOfMasks(Location loc, ArrayRef<RaisedMask> masks, StringRef whose) {
  llvm::StringSet<> named;
  for (const RaisedMask &mask : masks) {
    if (!named.insert(mask.input).second)
      continue;
    InFlightDiagnostic warning = emitWarning(loc);
    warning << "input '" << mask.input << "' is the mask of " << whose << "node '" << mask.node
            << "'" << (mask.module.empty() ? "" : " in " + mask.module)
            << ", and is taken as causal ";
    if (mask.window > 0)
      warning << "with the window of " << mask.window << " tokens that the configuration says";
    else
      warning << "without a window";
    warning << ", whatever it will hold: export without it, where the graph then makes its own, "
               "or see to it yourself (--graph-checked)";
  }
}

/// Of rope's tables that are inputs, the same: each once.
static void warnOfTables(Location loc, ArrayRef<RaisedTables> tables) {
  llvm::StringSet<> named;
  for (const RaisedTables &each : tables) {
    if (!named.insert(each.cos + " " + each.sin).second)
      continue;
    InFlightDiagnostic warning = emitWarning(loc);
    if (each.cos == each.sin)
      warning << "input '" << each.cos << "' holds";
    else
      warning << "inputs '" << each.cos << "' and '" << each.sin << "' hold";
    warning
        << " the cosines and sines of rope in the attention before node '" << each.node << "'"
        << (each.module.empty() ? "" : " in " + each.module)
        << ", and are taken as the configuration's, whatever they will hold: see to it that its "
           "rope_theta and scaling are theirs (--graph-checked)";
  }
}

static std::vector<RaisedMask> getMasks(const CachedGraph &graph) {
  std::vector<RaisedMask> masks;
  for (const CachedNode &node : graph.nodes)
    if (!node.mask.empty())
      masks.push_back({.input = node.mask, .node = node.node, .module = node.module});
  return masks;
}

static void warnOfInputs(Location loc, const RaisedLayer &layer) {
  warnOfMasks(loc, layer.masks, "the attention before ");
  warnOfTables(loc, layer.tables);
}

/// A whole model's attention alone, over caches.
static OwningOpRef<ModuleOp> loadCachedGraph(StringRef path, ModuleOp graph,
                                             const CompileOptions &options) {
  FailureOr<CachedGraph> cached =
      cacheAttention(*graph.getOps<func::FuncOp>().begin(), getAttentionOperators().front(),
                     options.import.pageSize);
  if (failed(cached))
    return {};
  if (!options.isGraphChecked)
    warnOfMasks(graph.getLoc(), getMasks(*cached), /*whose=*/"");
  OwningOpRef<ModuleOp> module = buildCachedSteps(graph.getLoc(), *cached, options.import);
  if (!module)
    return {};
  if (llvm::Error error = writeCachedGraph(*cached, options.cachedFile)) {
    emitFileError(*graph.getContext(), path) << llvm::toString(std::move(error));
    return {};
  }
  return module;
}

static OwningOpRef<ModuleOp> loadArchive(MLIRContext &context, StringRef path, StringRef content,
                                         const CompileOptions &options) {
  bool isCached = !options.cachedFile.empty();
  if (!isCached && failed(checkStepNames(context, path, options.functions)))
    return {};
  llvm::Expected<TorchArchive> archive = TorchArchive::open(content);
  if (!archive) {
    emitFileError(context, path) << llvm::toString(archive.takeError());
    return {};
  }
  Location loc = getFileLoc(context, path);
  OwningOpRef<ModuleOp> graph = importTorchGraph(loc, *archive);
  if (!graph)
    return {};
  if (isCached)
    return loadCachedGraph(path, *graph, options);
  FailureOr<ModelConfig> config = loadArchiveConfig(context, path, *archive, options);
  if (failed(config))
    return {};
  FailureOr<RaisedLayer> layer = raiseGraph(*graph->getOps<func::FuncOp>().begin(), *config,
                                            options.import, !options.regionsFile.empty());
  if (failed(layer))
    return {};
  if (!options.isGraphChecked)
    warnOfInputs(loc, *layer);
  if (llvm::Error error = writeParts(*archive, *layer, config->text, options)) {
    emitFileError(context, path) << llvm::toString(std::move(error));
    return {};
  }
  return std::move(layer->module);
}

//===----------------------------------------------------------------------===//
// Front ends
//===----------------------------------------------------------------------===//

namespace {
/// Makes modules of the files whose names end in `suffix`. Null: diagnostics say why.
struct FrontEnd {
  StringLiteral suffix;
  OwningOpRef<ModuleOp> (*load)(MLIRContext &context, StringRef path, StringRef content,
                                const CompileOptions &options);
};
} // namespace

/// The first that fits; the last takes every name.
static constexpr FrontEnd kFrontEnds[] = {{".mlir", parseModule},
                                          {".safetensors", loadLayer},
                                          {".pt2", loadArchive},
                                          {".json", loadConfig},
                                          {"", loadConfig}};

static const FrontEnd &getFrontEnd(StringRef path) {
  return *llvm::find_if(kFrontEnds,
                        [&](const FrontEnd &each) { return path.ends_with(each.suffix); });
}

bool mlac::isModuleFile(StringRef path) { return getFrontEnd(path).load == parseModule; }

bool mlac::isConfigFile(StringRef path) { return getFrontEnd(path).load == loadConfig; }

bool mlac::isArchiveFile(StringRef path) { return getFrontEnd(path).load == loadArchive; }

StringRef mlac::getModelStem(StringRef path) {
  path = path.rtrim('/'); // of folders
  return path.drop_back(getFrontEnd(path).suffix.size());
}

/// A folder as Hugging Face publishes models has its configuration under this name.
std::string mlac::getModelFile(StringRef path) {
  if (!llvm::sys::fs::is_directory(path))
    return path.str();
  SmallString<128> file(path);
  llvm::sys::path::append(file, "config.json");
  return file.str().str();
}

/// Columns of activations that have one scale, and so of a weight's blocks; a token has one where a
/// weight has no blocks.
static constexpr int64_t kActivationGroup = 128;

/// What a checkpoint's weights have one scale for, as configurations call it.
static std::string describeStrategy(ArrayRef<int64_t> block) {
  if (block == ArrayRef<int64_t>({0, 0}))
    return "tensor";
  if (block == ArrayRef<int64_t>({1, 0}))
    return "channel";
  return "block of " + llvm::utostr(block[0]) + " x " + llvm::utostr(block[1]);
}

/// What was asked for, and is not done for any weight.
static void warnOfNoCodes(ModuleOp module, ArrayRef<int64_t> block) {
  bool keepsCodes =
      module.walk([](mla::ScaledWeightOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!keepsCodes)
    module.emitWarning("--keep-codes keeps no weight: products read codes of matrices of a "
                       "multiple of ")
        << mla::kCodeTileRows << " rows and of " << mla::kScaledDepth
        << " columns, with scales of the tensor, of rows, or of blocks of one row or a multiple of "
        << mla::kCodeTileRows << " by " << mla::kScaledDepth << " columns; here are scales of "
        << describeStrategy(block) << ", and weights are dequantised when they are bound";
}

/// Weights that are folded ahead into others stay in the activations' type.
static LogicalResult keepCodes(ModuleOp module, const CompileOptions &options) {
  auto block = module->getAttrOfType<DenseI64ArrayAttr>(mla::kWeightScalesAttr);
  if (!block)
    return module.emitError("--keep-codes needs weights with scales: a configuration with "
                            "quantization_config, without --dequantised-weights");
  bool hasBoth = options.keepCodes == CodesUse::Both;
  bool hasRows = block[1] == 0 && block[0] <= 1;
  if (hasBoth && block[1] != kActivationGroup && !hasRows)
    return module.emitError("--keep-codes=both supports the strategies tensor, channel and block "
                            "of N x ")
           << kActivationGroup << ", whose columns agree with the activations' groups, not "
           << describeStrategy(block) << "; --keep-codes=weights takes it";
  mla::MlaKeepCodesOptions keep;
  keep.latentsOnly = options.absorb != mla::AbsorbMode::Online;
  keep.ranks = std::max<int64_t>(1, options.parsing.tensorParallel);
  if (options.keepCodes == CodesUse::Auto)
    keep.machine = getMachineOf(options.targets.front()).name;
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.addPass(mla::createMlaKeepCodes(keep));
  if (hasBoth)
    passes.addPass(mla::createMlaQuantizeActivations({.group = block[1]}));
  if (failed(passes.run(module)))
    return failure();
  if (options.keepCodes != CodesUse::Auto)
    warnOfNoCodes(module, block);
  return success();
}

/// Absorbed weights become codes in the blocks of a checkpoint's.
static LogicalResult checkAbsorbed(ModuleOp module, const CompileOptions &options) {
  if (!options.requantisesAbsorbed || module->hasAttr(mla::kWeightScalesAttr))
    return success();
  return module.emitError("--absorbed=codes needs weights with scales: a configuration with "
                          "quantization_config, without --dequantised-weights");
}

/// Of what was loaded, what was asked for.
static FailureOr<OwningOpRef<ModuleOp>> finishModel(OwningOpRef<ModuleOp> module,
                                                    const CompileOptions &options) {
  if (!module || failed(keepFunctions(*module, options.functions)) ||
      failed(checkAbsorbed(*module, options)) ||
      (options.keepCodes != CodesUse::Off && failed(keepCodes(*module, options))))
    return failure();
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> mlac::loadSibling(ModuleOp module, const CompileOptions &options) {
  std::string path, text = getModel(module).getConfig().str();
  if (auto place = dyn_cast<FileLineColLoc>(module.getLoc()))
    path = place.getFilename().str();
  return finishModel(loadConfig(*module.getContext(), path, text, options), options);
}

FailureOr<std::vector<LayerKind>> mlac::loadLayerKinds(ModuleOp module,
                                                       const CompileOptions &options) {
  llvm::Expected<std::vector<LayerKind>> kinds =
      listLayerKinds(getModel(module).getConfig(), options.parsing);
  if (kinds)
    return std::move(*kinds);
  auto place = dyn_cast<FileLineColLoc>(module.getLoc());
  std::string path = place ? place.getFilename().str() : "";
  // A model has its configuration with defaults, whose places are not the file's.
  if (llvm::sys::fs::is_regular_file(path))
    if (llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path); !file)
      llvm::consumeError(file.takeError());
    else if (auto again = listLayerKinds((*file)->getBuffer(), options.parsing); !again) {
      llvm::consumeError(kinds.takeError());
      return emitProblems(*module.getContext(), path, again.takeError());
    }
  return emitFileError(*module.getContext(), path) << llvm::toString(kinds.takeError());
}

FailureOr<OwningOpRef<ModuleOp>> mlac::loadModel(MLIRContext &context, const std::string &input,
                                                 const CompileOptions &options) {
  std::string path = getModelFile(input);
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
  if (!file)
    return emitFileError(context, path) << "cannot be read: " << llvm::toString(file.takeError());
  context.loadDialect<mla::MlaDialect>(); // a module may have nothing of it
  return finishModel(getFrontEnd(path).load(context, path, (*file)->getBuffer(), options), options);
}
