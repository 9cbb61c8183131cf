#include "launch/huggingface/import/import_adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/run_state.h"
#include "launch/checkpoint/save/save.h"
#include "launch/huggingface/classifier_metadata.h"
#include "launch/huggingface/import/foreign_json.h"
#include "launch/huggingface/import/foreign_weights.h"
#include "launch/huggingface/import/import_model.h"
#include "launch/huggingface/import/saved_modules.h"
#include "launch/huggingface/import/tensor_maker.h"
#include "launch/huggingface/model_class.h"
#include "launch/huggingface/sentence_modules.h"
#include "launch/huggingface/tensor_names.h"
#include "launch/support/files/folders.h"
#include "launch/train/start/run_lock.h"
#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "parallel/layers/low_rank_adapter.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAdapterSettings = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr int64_t kMaxAdapterRank = 10'000;  // as model.lora_rank

/// Values of PEFT's patterns of module names (rank_pattern, alpha_pattern).
class ModulePatterns {
 public:
  ModulePatterns(const ForeignJson& reader, const char* key) : where_(reader.where()), key_(key) {
    if (!reader.has(key)) return;
    for (const auto& [pattern, value] : reader.object(key).items()) {
      require(value.is_number(), "{}: \"{}\" has {} for {}, but must have a number", where_, key,
              json_type(value), quote(pattern));
      patterns_.emplace_back(module_of(pattern), value.get<double>());
    }
  }

  bool empty() const { return patterns_.empty(); }

  /// The value for a module, as in "model.layers.0.self_attn.q_proj", or `otherwise`.
  double of(const std::string& module, double otherwise) const {
    std::optional<double> found;
    for (const auto& [name, value] : patterns_) {
      if (module != name && !module.ends_with("." + name)) continue;
      require(!found || *found == value,
              "{}: \"{}\" has {:g} and {:g} for {}: keep the pattern that PEFT used", where_, key_,
              found.value_or(value), value, quote(module));
      found = value;
    }
    return found.value_or(otherwise);
  }

 private:
  /// The end of a module's name, which is a regular expression in PEFT.
  std::string module_of(std::string pattern) const {
    const std::string given = pattern;
    if (pattern.starts_with('^')) pattern.erase(0, 1);
    if (pattern.ends_with('$')) pattern.pop_back();
    for (size_t at; (at = pattern.find("\\.")) != std::string::npos;) pattern.erase(at, 1);
    require(!pattern.empty() && pattern.find_first_of("*+?[](){}|\\^$") == std::string::npos,
            "{}: \"{}\" has the regular expression {}, but Tessera reads names of modules, such as "
            "layers.0.self_attn.q_proj: write one for each module",
            where_, key_, quote(given));
    return pattern;
  }

  std::string where_, key_;
  std::vector<std::pair<std::string, double>> patterns_;
};

/// Which layers PEFT gives adapters, by "layers_to_transform" and "layers_pattern".
struct LayerChoice {
  std::optional<std::set<int64_t>> numbers;
  std::vector<std::string> lists;  ///< names of lists of layers, such as "h"; empty: any
};

struct AdapterSettings {
  int64_t rank;
  double alpha;
  bool rslora;
  double dropout;
  std::string task;
  ModulePatterns ranks, alphas;
  LayerChoice layers;
  std::vector<std::string> modules;  ///< that were trained as a whole

  /// The factor of a module's adapter of this rank.
  double scale(double of_alpha, int64_t of_rank) const {
    const auto r = static_cast<double>(of_rank);
    return of_alpha / (rslora ? std::sqrt(r) : r);
  }
  double scale() const { return scale(alpha, rank); }
};

std::vector<std::string> texts_of(const ForeignJson& reader, const char* key) {
  std::vector<std::string> texts;
  if (!reader.has(key)) return texts;
  if (!reader.is_list(key)) return {reader.text(key, "")};
  for (const Json& text : reader.list(key)) {
    require(text.is_string(), "{}: \"{}\" must be a list of names, but has {}", reader.where(), key,
            json_type(text));
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

LayerChoice read_layer_choice(const ForeignJson& reader) {
  constexpr const char* kKey = "layers_to_transform";
  LayerChoice choice;
  choice.lists = texts_of(reader, "layers_pattern");
  if (!reader.has(kKey)) return choice;
  choice.numbers.emplace();
  if (!reader.is_list(kKey)) {
    choice.numbers->insert(reader.count({kKey}, 0));
    return choice;
  }
  for (const Json& number : reader.list(kKey)) {
    require(number.is_number_unsigned(), "{}: \"{}\" must be a list of layers, but has {}",
            reader.where(), kKey, json_type(number));
    choice.numbers->insert(number.get<int64_t>());
  }
  return choice;
}

/// Some kinds of initialization also change the weights of the base model, when training starts or
/// whenever PEFT loads the adapters.
void check_initialization(const ForeignJson& reader) {
  constexpr const char* kKey = "init_lora_weights";
  constexpr const char* kKeepBase[] = {"gaussian", "orthogonal", "eva", "mica"};
  if (reader.is_flag(kKey)) return;
  const std::string name = reader.text(kKey, "gaussian");
  require(std::ranges::find(kKeepBase, name) != std::end(kKeepBase),
          "{}: \"{}\" is {}, but must be true, false or one of {}: with others, such as "
          "pissa, PEFT also changes the weights of the base model. Save the adapters with "
          "path_initial_model_for_weight_conversion, which makes them plain LoRA",
          reader.where(), kKey, quote(name), fmt::join(kKeepBase, ", "));
}

AdapterSettings read_adapter_settings(const fs::path& path) {
  const Json json = read_small_json(path);
  const ForeignJson reader(json, path.string());
  reader.require_text("peft_type", {"LORA"});
  reader.require_text("bias", {"none"});
  for (const char* flag : {"use_dora", "lora_bias", "use_qalora"}) {
    reader.require_flag(flag, false, "Tessera's adapters are plain LoRA");
  }
  for (const char* key : {"alora_invocation_tokens", "arrow_config", "kasa_config", "use_bdlora"}) {
    reader.require_empty(key, "Tessera's adapters are plain LoRA");
  }
  check_initialization(reader);
  for (const char* key : {"trainable_token_indices", "layer_replication", "target_parameters"}) {
    reader.require_empty(key, "Tessera imports adapters of whole layers");
  }
  const int64_t rank = reader.count({"r"}, 0);
  require(0 < rank && rank <= kMaxAdapterRank, "{}: \"r\" is {}, but must be from 1 to {}",
          path.string(), rank, kMaxAdapterRank);
  const double alpha = reader.number("lora_alpha", 8.0);
  require(1e-3 <= alpha && alpha <= 1e6,
          "{}: \"lora_alpha\" is {:g}, but must be from 0.001 to 1e6", path.string(), alpha);
  const double dropout = reader.number("lora_dropout", 0.0);
  require(0.0 <= dropout && dropout < 1.0,
          "{}: \"lora_dropout\" is {}, but must be from 0 to below 1", path.string(), dropout);
  return {rank,
          alpha,
          reader.flag("use_rslora", false),
          dropout,
          reader.text("task_type", ""),
          ModulePatterns(reader, "rank_pattern"),
          ModulePatterns(reader, "alpha_pattern"),
          read_layer_choice(reader),
          texts_of(reader, "modules_to_save")};
}

/// One of their layers within a layer of ours.
struct AdapterPart {
  std::string a, b;  ///< names in the file; empty if it has no adapter
  int64_t rows = 0;  ///< of B
  int64_t rank = 0;
  float factor = 1.0f;  ///< its scale relative to that of all others
  int64_t column = 0;   ///< where its columns of our B, and its rows of our A, begin
};

/// A layer of ours and the adapters of its parts.
struct AdaptedLayer {
  std::string name;
  const TensorName* weight;
  std::vector<AdapterPart> parts;
  int64_t rank = 0;
};

class ForeignAdapters {
 public:
  ForeignAdapters(const ForeignWeights& weights, const std::vector<TensorName>& names,
                  const AdapterSettings& settings, const SavedModules& saved,
                  const std::string& file)
      : weights_(weights),
        settings_(settings),
        used_(saved.copies().begin(), saved.copies().end()),
        file_(file) {
    for (const auto& [theirs, stored] : saved.stored()) used_.insert(stored);
    for (const TensorName& name : names) add(name);
    std::vector<std::string> unknown;
    for (const auto& [name, place] : weights.tensors()) {
      if (used_.count(name) == 0 && unknown.size() < 5) unknown.push_back(quote(name));
    }
    require(unknown.empty(), "{} has {}, for which the base model has no place", file,
            fmt::join(unknown, ", "));
    require(!layers_.empty(), "{} has no adapters", file);
    for (const AdaptedLayer& layer : layers_) rank_ = std::max(rank_, layer.rank);
    require(rank_ <= kMaxAdapterRank,
            "{}: joint layers would have rank {}, but at most {} is allowed", file, rank_,
            kMaxAdapterRank);
  }

  const std::vector<AdaptedLayer>& layers() const { return layers_; }
  int64_t rank() const { return rank_; }
  bool has_own_ranks() const { return has_own_ranks_; }
  bool has_own_scales() const { return has_own_scales_; }

  Tensor a_of(const AdaptedLayer& layer) {
    const int64_t in = layer.weight->shape[-1];
    made_ = OwnedTensor({rank_, in}, DType::f32);
    fill(made_.tensor, 0.0);
    for (const AdapterPart& part : layer.parts) {
      if (part.a.empty()) continue;
      weights_.read(part.a, made_.tensor.slice(part.column, part.column + part.rank).span<float>());
    }
    return made_.tensor;
  }

  Tensor b_of(const AdaptedLayer& layer) {
    const TensorName& weight = *layer.weight;
    Shape shape = weight.shape;
    shape.set(-1, rank_);
    made_ = OwnedTensor(shape, DType::f32);
    fill(made_.tensor, 0.0);
    const int64_t all_rows = made_.tensor.numel() / rank_, group = all_rows / weight.groups;
    int64_t first = 0;  // row of this part within each group
    for (const AdapterPart& part : layer.parts) {
      const int64_t rows = part.rows / weight.groups;
      if (!part.b.empty()) {
        const OwnedTensor b({part.rows, part.rank}, DType::f32);
        weights_.read(part.b, b.tensor.span<float>());
        for (float& value : b.tensor.span<float>()) value *= part.factor;
        for (int64_t row = 0; row < part.rows; ++row) {
          const int64_t to = row / rows * group + first + row % rows;
          std::copy_n(b.tensor.data<float>() + row * part.rank, part.rank,
                      made_.tensor.data<float>() + to * rank_ + part.column);
        }
      }
      first += rows;
    }
    return made_.tensor;
  }

 private:
  void add(const TensorName& name) {
    if (!name.ours.ends_with(".weight")) return;
    AdaptedLayer layer{layer_name(name.ours), &name, {}};
    bool any = false;
    for (const TheirTensor& theirs : name.theirs) {
      const std::string module = kPeftPrefix + layer_name(theirs.name);
      AdapterPart part;
      part.rows = theirs.shape[name.transposed ? 1 : 0];
      const std::string a = module + ".lora_A.weight", b = module + ".lora_B.weight";
      const auto& tensors = weights_.tensors();
      if (tensors.count(a) + tensors.count(b) > 0) {
        const std::string theirs_name = layer_name(theirs.name);
        check_choice(theirs_name, name.ours);
        const double rank = settings_.ranks.of(theirs_name, static_cast<double>(settings_.rank));
        require(
            1.0 <= rank && rank <= static_cast<double>(kMaxAdapterRank) && rank == std::floor(rank),
            "{}: \"rank_pattern\" has {:g} for {}, but a rank is a whole number from 1 to {}",
            file_, rank, quote(theirs_name), kMaxAdapterRank);
        part.rank = static_cast<int64_t>(rank);
        const double scale =
            settings_.scale(settings_.alphas.of(theirs_name, settings_.alpha), part.rank);
        part.factor = static_cast<float>(scale / settings_.scale());
        require(std::isfinite(part.factor), "{}: the scale of {} is {:g}, but that of others {:g}",
                file_, quote(theirs_name), scale, settings_.scale());
        has_own_scales_ = has_own_scales_ || part.factor != 1.0f;
        has_own_ranks_ = has_own_ranks_ || part.rank != settings_.rank;
        require_shape_of(a, {part.rank, name.shape[-1]});
        require_shape_of(b, {part.rows, part.rank});
        part.a = a;
        part.b = b;
        used_.insert({a, b});
        any = true;
      }
      layer.parts.push_back(part);
    }
    if (!any) return;
    require(name.ours.find("blocks.") != std::string::npos,
            "the adapter of {} is of a layer outside the blocks, which has none in Tessera",
            quote(layer_name(name.theirs[0].name)));
    place_columns(layer);
    layers_.push_back(layer);
  }

  /// Throws if PEFT would ignore the adapter of `theirs`, which is in our layer `ours`.
  void check_choice(const std::string& theirs, const std::string& ours) const {
    const LayerChoice& choice = settings_.layers;
    const size_t blocks = ours.find("blocks.");
    if (!choice.numbers || blocks == std::string::npos) return;
    const std::string number = ours.substr(blocks + 7, ours.find('.', blocks + 7) - blocks - 7);
    require(choice.numbers->contains(std::stoll(number)),
            "{} has an adapter of {}, but \"layers_to_transform\" does not list layer {}", file_,
            quote(theirs), number);
    const auto is_in = [&](const std::string& list) {
      return ("." + theirs).find("." + list + "." + number + ".") != std::string::npos;
    };
    require(choice.lists.empty() || std::ranges::any_of(choice.lists, is_in),
            "{} has an adapter of {}, but \"layers_pattern\" is {}", file_, quote(theirs),
            quote(fmt::format("{}", fmt::join(choice.lists, ", "))));
  }

  /// Parts with the same A share columns.
  void place_columns(AdaptedLayer& layer) const {
    std::vector<const AdapterPart*> different;
    for (AdapterPart& part : layer.parts) {
      if (part.a.empty()) continue;
      const auto same = std::ranges::find_if(
          different, [&](const AdapterPart* before) { return weights_.same(before->a, part.a); });
      part.column = same != different.end() ? (*same)->column : layer.rank;
      if (same != different.end()) continue;
      different.push_back(&part);
      layer.rank += part.rank;
    }
  }

  void require_shape_of(const std::string& name, const Shape& shape) const {
    const auto found = weights_.tensors().find(name);
    require(found != weights_.tensors().end(), "the adapter lacks {}", quote(name));
    require(found->second.shape() == shape,
            "{}: {} has shape {}, but the base model and \"r\" need {}", found->second.file->path(),
            quote(name), to_string(found->second.shape()), to_string(shape));
    weights_.require_float(name);
  }

  const ForeignWeights& weights_;
  AdapterSettings settings_;
  std::vector<AdaptedLayer> layers_;
  std::set<std::string> used_;
  std::string file_;
  int64_t rank_ = 0;
  bool has_own_ranks_ = false, has_own_scales_ = false;
  OwnedTensor made_;
};

/// The names of the layers, or `*` if these are all that an adapter of that pattern would have.
std::vector<std::string> adapter_targets(const ModelConfig& base, int64_t rank,
                                         const std::vector<AdaptedLayer>& layers) {
  ModelConfig all = base;
  all.lora_rank = rank;
  ParameterStore store;
  const auto world = make_self_communicator();
  const Model model(all, store, *world);
  int64_t matrices = 0;
  for (const Parameter& parameter : store.parameters()) {
    matrices += is_of_low_rank_adapter(parameter.name) ? 1 : 0;
  }
  if (matrices == 2 * std::ssize(layers)) return {"*"};
  std::vector<std::string> names;
  for (const AdaptedLayer& layer : layers) names.push_back(layer.name);
  return names;
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) { return fs::exists(folder / kAdapterSettings); }

AdapterImportReport import_adapter(const AdapterImportOptions& options) {
  const AdapterSettings settings = read_adapter_settings(options.from / kAdapterSettings);
  const fs::path file = options.from / kAdapterWeights;
  require(fs::exists(file), "{} has no {}: save the adapter with safe_serialization=True",
          options.from.string(), kAdapterWeights);
  const ForeignWeights weights = ForeignWeights::in_file(file);
  const std::optional<ClassifierSettings> classifier = read_classifier_metadata(
      SafetensorsFile(file, ForeignDTypes::keep).metadata(), file.string());
  Checkpoint base = Checkpoint::open(resolve_checkpoint(options.base));
  ModelConfig model = model_from_json(base.manifest().model);
  require(model.lora_rank == 0,
          "the base model {} has adapters: export it, which merges them, and import it first",
          base.path().string());
  const std::vector<TensorName> base_names = tensor_names(model);
  const int64_t base_labels = model.num_labels;
  model = with_saved_heads(model, weights, settings.task, classifier);
  std::vector<std::string> notes;
  if (model.head == Head::embedding) read_sentence_modules(options.from, model, notes);
  const std::vector<TensorName> names = tensor_names(model);
  const SavedModules saved(weights, model, names, settings.modules);
  ForeignAdapters adapters(weights, names, settings, saved, file.string());

  model.lora_targets = adapter_targets(model, adapters.rank(), adapters.layers());
  model.lora_rank = adapters.rank();
  model.lora_alpha = settings.scale() * static_cast<double>(adapters.rank());
  model.lora_dropout = settings.dropout;
  require_usable(model, options.from / kAdapterSettings);
  if (adapters.has_own_ranks()) {
    notes.push_back(fmt::format(
        "the adapters have several ranks: all have rank {} here, and those of less are padded with "
        "zeros, which training leaves at zero",
        adapters.rank()));
  }
  if (adapters.has_own_scales()) {
    notes.emplace_back(
        "the adapters have several scales (lora_alpha / r): those that differ are multiplied into "
        "B, so predictions and merging are the same, but training changes these with another "
        "effective learning rate than PEFT");
  }
  const NewFolders folders(checkpoints_folder(options.to));
  const RunLock lock(options.to.string());
  require_no_checkpoints(options.to);
  SaveRequest request;
  request.run_dir = options.to;
  request.in_a_run = false;
  request.model = architecture_json(model);
  const RunState run_of_base = read_run_state(base.manifest());
  RunState run;
  run.tokenizer = run_of_base.tokenizer;
  run.imported_from = options.from.string();
  run.trained_beside_adapters = {saved.parameters().begin(), saved.parameters().end()};
  if (classifier && !classifier->labels.empty()) {
    run.labels = fmt::format("{}", fmt::join(classifier->labels, ","));
  } else if (!classifier && model.num_labels == base_labels) {
    run.labels = run_of_base.labels;
  }
  request.extra = to_extra(run);
  if (classifies(model.head) && model.problem_type != ProblemType::regression && !run.labels) {
    notes.push_back(
        fmt::format("{}: to name the {} labels, set data.labels in the configuration",
                    classifier ? "the labels that the adapters were trained on are numbers"
                               : "neither the adapters nor the base model name labels, so they are "
                                 "numbers",
                    model.num_labels));
  }
  for (const auto& [name, stored] : base.manifest().attachments) {
    request.attachments[name] = base.attachment(name);
  }
  const auto hold = [&](const std::string& name, const Shape& shape, std::function<Tensor()> make) {
    request.tensors.push_back({name, kModelKind, shape, box_of({}, shape),
                               Tensor(nullptr, shape, DType::f32, kMeta), std::move(make)});
  };
  OwnedTensor weight;
  const auto read = [&](const std::string& name, const Shape& shape) {
    weight = {};  // freed before the next is allocated
    weight = OwnedTensor(shape, DType::f32);
    base.read(name, shape, {}, weight.tensor);
    return weight.tensor;
  };
  TensorMaker maker(weights, saved.stored());
  for (const TensorName& name : names) {
    if (name.ours.empty()) continue;
    if (saved.has(name)) {
      hold(name.ours, name.shape, [&] { return maker.make(name); });
    } else {
      const std::string from = base_weight(name, base, base_names);
      hold(name.ours, name.shape, [&, from] { return read(from, name.shape); });
    }
  }
  for (const AdaptedLayer& layer : adapters.layers()) {
    const LowRankNames own = low_rank_names(layer.name);
    Shape b_shape = layer.weight->shape;
    b_shape.set(-1, adapters.rank());
    hold(own.a, {adapters.rank(), layer.weight->shape[-1]}, [&] { return adapters.a_of(layer); });
    hold(own.b, b_shape, [&] { return adapters.b_of(layer); });
  }
  const auto world = make_self_communicator();
  const SavedCheckpoint done = save_checkpoint(request, *world);
  return {done.path, adapters.rank(), std::ssize(adapters.layers()), saved.modules(), notes};
}

}  // namespace tessera
