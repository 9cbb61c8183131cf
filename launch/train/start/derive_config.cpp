#include "launch/train/start/derive_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/run_state.h"
#include "launch/config/config_changes.h"
#include "launch/config/label_names.h"
#include "launch/config/load_config.h"
#include "launch/config/schema.h"
#include "launch/config/validate_kind.h"
#include "launch/config/values/value_rule.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/data/datasets/text_tuples.h"
#include "launch/data/images/image_set.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/sample_source.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> paths_of(const DataBlend& data) {
  std::vector<std::string> paths;
  for (const DataBlend::Part& part : data.parts) paths.push_back(part.path);
  return paths;
}

/// The newest checkpoint of a run whose manifest and attachments can be read.
std::optional<Checkpoint> newest_checkpoint(const std::string& run_dir) {
  for (const StepFolder& step : step_folders(checkpoints_folder(run_dir))) {
    try {
      Checkpoint checkpoint = Checkpoint::open(step.path);
      for (const auto& [name, stored] : checkpoint.manifest().attachments) {
        checkpoint.attachment(name);
      }
      return checkpoint;
    } catch (const Error&) {
      continue;  // the start reports damaged checkpoints
    }
  }
  return std::nullopt;
}

/// Derives one key after the other.
class Deriver {
 public:
  Deriver(const RunConfig& config, int64_t world_size, DeriveFor purpose,
          const ReportSkipped& report)
      : derived_{config, {}, nullptr, {}},
        world_size_(world_size),
        purpose_(purpose),
        report_(report) {}

  DerivedConfig run() {
    if (config().checkpoint.resume != ResumeMode::never) own_ = newest_checkpoint(config().run.dir);
    if (own_) {
      take_earlier_values();
      take_model(*own_, /*heads=*/true);
      take_position(*own_);
    } else if (config().checkpoint.from && wants_of_model()) {
      take_model(checkpoint_from(), /*heads=*/config().checkpoint.from_state);
    }
    if (!own_ && config().checkpoint.from_state && config().train.epochs > 0.0) {
      take_position(checkpoint_from());
    }
    if (wants("model.head")) derive_head();
    if (!own_ && config().checkpoint.from && wants_of_model()) derive_pooling();
    derive_images();  // their tokens depend on the pooling
    if (wants("model.next_sentence")) derive_next_sentence();
    if (wants("data.packing")) derive_packing();
    if (wants("model.hard_negatives")) derive_hard_negatives();
    if (wants("model.num_labels") || wants("data.labels")) derive_labels();
    const bool needs_tokenizer = purpose_ == DeriveFor::training || wants("model.vocab_size");
    if (wants("data.tokenizer") && needs_tokenizer) find_tokenizer();
    if (wants("model.vocab_size")) derive_vocab_size();
    // Keys that no checkpoint defines, such as model.dropout, have ordinary defaults.
    std::erase_if(derived_.config.automatic,
                  [](const std::string& name) { return name.starts_with(kModel); });
    find_chat_form();
    if (config().model.attention_mask_file) check_masks(config().model);
    load_attention_mask(derived_.config.model);
    return std::move(derived_);
  }

 private:
  static constexpr std::string_view kModel = "model.";

  const RunConfig& config() const { return derived_.config; }
  bool wants(std::string_view name) const { return config().automatic.contains(name); }
  bool wants_of_model() const {
    const auto next = config().automatic.lower_bound(kModel);
    return next != config().automatic.end() && next->starts_with(kModel);
  }
  bool has_images() const { return architecture_of(config().model.kind).images; }
  bool classifies() const { return config().model.head != Head::pretraining; }

  /// `value` in YAML.
  void set(const std::string& name, const std::string& value, const std::string& origin) {
    const std::vector<std::string> overrides = {name + "=" + value};
    apply_overrides(derived_.config, overrides);
    if (!origin.empty()) derived_.origins[name] = origin;
  }

  /// The member already has the default.
  void use_default(const std::string& name) { derived_.config.automatic.erase(name); }

  /// A resumed run continues with the values of its start, even if the data or the host has
  /// changed.
  void take_earlier_values() {
    std::optional<RunConfig> earlier;
    try {
      earlier = load_config(fs::path(config().run.dir) / "config.yaml");
    } catch (const Error&) {
      return;  // an imported checkpoint has none; the start reports a damaged one
    }
    const int64_t data_ranks = config().grid_shape().data_ranks(world_size_);
    const bool same_share = config().batch.global % (earlier->batch.micro * data_ranks) == 0;
    for (const NamedValue& key : config_values(*earlier)) {
      if (!wants(key.name) || earlier->automatic.contains(key.name)) continue;
      if (key.name == "batch.micro" && !same_share) continue;
      if (key.name == "run.walltime") continue;         // is of each start
      if (key.name == "train.steps") continue;          // derive_steps()
      if (key.name == "checkpoint.interval") continue;  // likewise
      const bool has_default = key.name == "data.labels" && key.value == "null";
      set(key.name, key.value, has_default ? "" : "as at the start of the run");
    }
    const bool same_epochs = config().train.epochs == earlier->train.epochs &&
                             config().batch.global == earlier->batch.global;
    if (same_epochs) derived_.position.all_steps = earlier->train.steps;
    // The run's config.yaml repeats what was chosen for the ranks it had.
    if (!same_share && config().batch.micro == earlier->batch.micro) {
      derived_.config.automatic.insert("batch.micro");
    }
  }

  void take_model(const Checkpoint& checkpoint, bool heads) {
    RunConfig saved;
    saved.model = model_of(checkpoint);
    for (const NamedValue& key : config_values(saved)) {
      if (!key.name.starts_with(kModel) || !wants(key.name)) continue;
      const std::string name = key.name.substr(kModel.size());
      if (!checkpoint.manifest().model.contains(name) || (is_of_heads(name) && !heads)) continue;
      if (name == "seq_length" && saved.model.has_images()) continue;  // follows from the patches
      set(key.name, key.value, checkpoint.path().string());
    }
    const std::vector<std::string> labels =
        names_of_labels(read_run_state(checkpoint.manifest()).labels);
    if (heads && wants("data.labels") && !labels.empty()) {
      set_label_names(labels, checkpoint.path().string());
    }
  }

  void take_position(const Checkpoint& checkpoint) {
    derived_.position.steps = checkpoint.manifest().step;
    derived_.position.samples = checkpoint.manifest().samples;
  }

  void derive_head() {
    if (has_images()) {
      return set("model.head", "classification", "the model sees images");
    }
    const std::vector<std::string> paths = paths_of(config().data.train);
    const bool is_labeled = !paths.empty() && std::ranges::all_of(paths, has_columns);
    const bool has_heads = architecture_of(config().model.kind).classification;
    if (is_labeled && has_heads && tuple_columns(paths[0], config().data.columns)) {
      set("model.head", "embedding", "data.train has anchors and positives");
    } else if (is_labeled && has_heads) {
      set("model.head", "classification", "data.train is a file of labeled texts");
    } else {
      set("model.head", "pretraining", "");
    }
  }

  void derive_images() {
    if (!has_images()) return;
    if (purpose_ == DeriveFor::training) check_images();
    if (wants("model.image_size") || wants("model.num_channels")) {
      const std::string path = paths_of(config().data.train).at(0);
      const ImageFormat found =
          with_exit_code(ExitCode::data, [&] { return open_images(path)->format(); });
      constexpr int64_t kResized = 224, kColors = 3;
      const bool resized = found.rows == 0;
      const std::string origin = resized ? "for image files" : fmt::format("as in {}", path);
      const auto set_number = [&](const char* name, int64_t value) {
        if (wants(name)) set(name, fmt::to_string(value), origin);
      };
      set_number("model.image_size", resized ? kResized : found.rows);
      set_number("model.num_channels", resized ? kColors : found.channels);
    }
    if (wants("model.seq_length")) {
      set("model.seq_length", fmt::to_string(config().model.image_tokens()), "the patches");
    }
    // Patches have no ids.
    if (wants("model.vocab_size")) set("model.vocab_size", "1", "");
    if (wants("data.tokenizer")) set("data.tokenizer", std::string(kNoTokenizer), "");
  }

  /// Damaged files would otherwise cost samples of the run.
  void check_images() const {
    std::vector<std::string> paths = paths_of(config().data.train);
    if (const auto& eval = config().data.eval) {
      for (const std::string& path : paths_of(*eval)) paths.push_back(path);
    }
    with_exit_code(ExitCode::data, [&] {
      for (const std::string& path : paths) open_images(path)->check();
    });
  }

  /// A head of the same kind continues with the pooling that it was trained with.
  void derive_pooling() {
    RunConfig from;
    from.model = model_from_json(checkpoint_from().manifest().model);
    if (from.model.head != config().model.head) return;
    for (const NamedValue& key : config_values(from)) {
      if (key.name.ends_with("_pooling") && wants(key.name)) {
        set(key.name, key.value, checkpoint_from().path().string());
      }
    }
  }

  void derive_hard_negatives() {
    const std::vector<std::string> paths = paths_of(config().data.train);
    const bool embeds = config().model.head == Head::embedding && !paths.empty();
    const auto columns = embeds ? tuple_columns(paths[0], config().data.columns) : std::nullopt;
    if (!columns || !columns->negative) return use_default("model.hard_negatives");
    set("model.hard_negatives", "true", fmt::format("the negatives in {}", paths[0]));
  }

  void derive_packing() {
    const std::optional<std::string> examples = packed_examples(config());
    if (!examples) return use_default("data.packing");
    set("data.packing", "documents", fmt::format("for the examples in {}", *examples));
  }

  /// Takes the key from checkpoint.from if pre-training continues.
  void derive_next_sentence() {
    if (classifies()) return use_default("model.next_sentence");
    const ModelConfig from = model_from_json(checkpoint_from().manifest().model);
    set("model.next_sentence", from.next_sentence ? "true" : "false",
        checkpoint_from().path().string());
  }

  void derive_labels() {
    if (!classifies() || config().model.head == Head::embedding) {
      use_default("model.num_labels");
      use_default("data.labels");
      return;
    }
    if (config().model.problem_type == ProblemType::regression) {
      if (wants("model.num_labels"))
        set("model.num_labels", "1", "model.problem_type is regression");
      if (wants("data.labels")) use_default("data.labels");
      return;
    }
    const std::vector<std::string> paths = paths_of(config().data.train);
    const std::string origin = fmt::format("the labels in {}", fmt::join(paths, ", "));
    std::optional<Labels> found;
    if (wants("data.labels")) {
      std::optional<int64_t> count;
      if (!wants("model.num_labels")) count = config().model.num_labels;
      found = labels_in(paths, count);
      set_label_names(names_of_classifier(found->names), origin);
    }
    if (!wants("model.num_labels")) return;
    if (config().data.labels) {
      set("model.num_labels", fmt::to_string(label_names(*config().data.labels).size()),
          found ? origin : "data.labels");
    } else {
      if (!found) found = labels_in(paths, {});
      set("model.num_labels", fmt::to_string(found->count), origin);
    }
  }

  Labels labels_in(const std::vector<std::string>& paths, std::optional<int64_t> count) const {
    return with_exit_code(ExitCode::data, [&] {
      if (has_images()) return find_image_labels(paths, count);
      const bool of_words = config().model.head == Head::token_classification;
      const RowOptions rows{config().data.columns};
      return of_words ? find_word_labels(paths, count, rows)
                      : find_labels(paths, config().model.problem_type, count, rows);
    });
  }

  /// `names`, or, if checkpoint.from classifies all of them, its names in their order.
  std::vector<std::string> names_of_classifier(const std::vector<std::string>& names) {
    if (own_ || !config().checkpoint.from || names.empty()) return names;
    const auto saved = names_of_labels(read_run_state(checkpoint_from().manifest()).labels);
    const auto is_saved = [&](const std::string& name) {
      return std::ranges::find(saved, name) != saved.end();
    };
    return std::ranges::all_of(names, is_saved) ? saved : names;
  }

  void set_label_names(const std::vector<std::string>& names, const std::string& origin) {
    if (names.empty()) return use_default("data.labels");  // numbers
    if (const auto problem = label_problem(names)) fail("{}: {}", origin, *problem);
    set("data.labels", Text{}.write(fmt::format("{}", fmt::join(names, ","))), origin);
  }

  /// Leaves the key automatic.
  void find_tokenizer() {
    std::string origin;
    if (own_ && own_->has_attachment(kTokenizerAttachment)) {
      derived_.tokenizer = tokenizer_of(*own_);
      origin = "the run's checkpoints";
    } else if (classifies() || has_text_files()) {
      require(config().checkpoint.from.has_value(),
              "data.tokenizer is auto, but {} have no tokenizer: set it, or start from a "
              "trained model with checkpoint.from",
              classifies()   ? "labeled texts"
              : is_seq2seq() ? "pairs of texts"
                             : "prompts and completions");
      derived_.tokenizer =
          with_exit_code(ExitCode::data, [&] { return tokenizer_of(checkpoint_from()); });
      origin = checkpoint_from().path().string();
    } else {
      const std::vector<std::string> paths = paths_of(config().data.train);
      const auto prepared = std::ranges::find_if_not(paths, has_columns);
      origin = prepared == paths.end() ? paths.at(0) : *prepared;
      derived_.tokenizer =
          with_exit_code(ExitCode::data, [&] { return tokenizer_of_dataset(origin); });
    }
    derived_.origins["data.tokenizer"] =
        fmt::format("{}, from {}", to_string(identity_of(*derived_.tokenizer)), origin);
  }

  /// Finds the form of messages for a model that continues texts.
  void find_chat_form() {
    if (traits_of(config().model).objective != Objective::causal_lm) return;
    if (!own_ && !config().checkpoint.from) return;
    derived_.config.data.chat_form = with_exit_code(
        ExitCode::data, [&] { return checkpoint_chat(own_ ? *own_ : checkpoint_from()); });
  }

  bool is_seq2seq() const { return traits_of(config().model).objective == Objective::seq2seq; }
  /// Whether all data is pairs of texts, or prompts and completions, and none a prepared dataset.
  bool has_text_files() const {
    const Objective objective = traits_of(config().model).objective;
    return (objective == Objective::seq2seq || objective == Objective::causal_lm) &&
           std::ranges::all_of(paths_of(config().data.train), has_columns);
  }

  void derive_vocab_size() {
    const int64_t sentinels = num_sentinels(config());
    require(config().data.tokenizer != kNoTokenizer,
            "model.vocab_size is auto, but data.tokenizer is none, so nothing says how many ids "
            "there are: set model.vocab_size to the largest id + 1{} or more, or start from a "
            "trained model with checkpoint.from",
            sentinels == 0 ? "" : fmt::format(" + {} (span_corruption.sentinels)", sentinels));
    std::shared_ptr<const Tokenizer> tokenizer = derived_.tokenizer;
    if (tokenizer == nullptr) tokenizer = make_tokenizer(config().data.tokenizer);
    const std::string of = is_none(*tokenizer) ? "the dataset's" : "the tokenizer's";
    set("model.vocab_size", fmt::to_string(tokenizer->vocab_size() + sentinels),
        sentinels == 0 ? of : of + " and the sentinels");
  }

  /// Opened on first use, because that verifies the whole checkpoint.
  const Checkpoint& checkpoint_from() {
    if (!from_) {
      with_exit_code(ExitCode::data, [&] {
        from_ = Checkpoint::open(resolve_checkpoint(*config().checkpoint.from, report_));
      });
    }
    return *from_;
  }

  DerivedConfig derived_;
  int64_t world_size_;
  DeriveFor purpose_;
  const ReportSkipped& report_;
  std::optional<Checkpoint> own_;  ///< of the run, if it resumes
  std::optional<Checkpoint> from_;
};

/// The derived keys of `now` as overrides of `before`, including those with their default.
std::vector<std::string> derived_keys(const RunConfig& before, const RunConfig& now) {
  std::vector<std::string> overrides;
  for (const NamedValue& key : config_values(now)) {
    if (!before.automatic.contains(key.name) || now.automatic.contains(key.name)) continue;
    overrides.push_back(fmt::format("{}={}", key.name, key.value));
  }
  return overrides;
}

}  // namespace

DerivedConfig derive_config(const RunConfig& config, int64_t world_size, DeriveFor purpose,
                            const ReportSkipped& report) {
  return with_exit_code(ExitCode::configuration,
                        [&] { return Deriver(config, world_size, purpose, report).run(); });
}

DerivedConfig derive_config(const RunConfig& config, Communicator& world,
                            const ReportSkipped& report) {
  DerivedConfig derived{config, {}, nullptr, {}};
  std::string text;
  constexpr char kError = '!';  // JSON does not begin with it
  if (world.rank() == 0) {
    try {
      derived = derive_config(config, world.size(), DeriveFor::training, report);
      Json message = {{"keys", derived_keys(config, derived.config)},
                      {"automatic", derived.config.automatic}};
      const auto& [steps, samples, all_steps] = derived.position;
      message["position"] = {steps, samples, all_steps};
      if (derived.tokenizer) message["tokenizer"] = derived.tokenizer->to_json();
      if (const auto& chat = derived.config.data.chat_form) message["chat"] = to_json(*chat);
      text = to_text(message);
    } catch (const std::exception& error) {
      const auto code = static_cast<char>(exit_code_of(error));
      text = std::string{kError, code} + message_of(error);
    }
  }
  text = broadcast_string(world, text, 0);
  if (text.starts_with(kError)) {
    throw SharedError(text.substr(2), static_cast<ExitCode>(text[1]));
  }
  all_or_none(world, [&] {
    if (world.rank() == 0) return;
    const std::string source = "the first rank's configuration";
    const Json message = parse_json(text, source);
    apply_overrides(derived.config, message.at("keys").get<std::vector<std::string>>());
    message.at("automatic").get_to(derived.config.automatic);
    const auto position = message.at("position").get<std::array<int64_t, 3>>();
    derived.position = {position[0], position[1], position[2]};
    with_exit_code(ExitCode::configuration, [&] { load_attention_mask(derived.config.model); });
    if (message.contains("tokenizer")) {
      derived.tokenizer = tokenizer_from_json(message.at("tokenizer"), source);
    }
    if (message.contains("chat")) {
      derived.config.data.chat_form =
          std::make_shared<const ChatForm>(chat_form_from_json(message.at("chat"), source));
    }
  });
  return derived;
}

void derive_steps(DerivedConfig& derived, const TrainingData& data) {
  RunConfig& config = derived.config;
  const double epochs = config.train.epochs;
  if (epochs == 0.0) {
    require(!config.automatic.contains("train.steps"),
            "train.epochs is 0 and train.steps is auto, so nothing says how long the run is: set "
            "one of them");
    return;
  }
  require(data.train_parts.size() == 1,
          "train.epochs is {}, but data.train blends {} datasets, which end at different times: "
          "set train.steps instead; the run then says how many epochs of each dataset it has",
          epochs, data.train_parts.size());
  const RunPosition& position = derived.position;
  const int64_t samples = data.train_parts[0].samples;
  const double all = std::round(epochs * static_cast<double>(samples));
  const double most = static_cast<double>(kMaxSteps) * static_cast<double>(config.batch.global);
  require(all <= most, "train.epochs is {}, which is more than {} steps: choose fewer", epochs,
          kMaxSteps);
  const int64_t left = std::max<int64_t>(static_cast<int64_t>(all) - position.samples, 0);
  const int64_t computed = position.steps + ceil_div(left, config.batch.global);
  const int64_t steps =
      std::max<int64_t>(1, position.all_steps > 0 ? position.all_steps : computed);
  if (config.automatic.erase("train.steps") > 0) {
    config.train.steps = steps;
    derived.origins["train.steps"] =
        fmt::format("{:.6g} epoch{} of {} samples in batches of {}", epochs,
                    epochs == 1.0 ? "" : "s", samples, config.batch.global);
  }
  require(config.train.steps == steps,
          "train.steps is {}, but train.epochs is {}, which is {} steps: leave one of them out",
          config.train.steps, epochs, steps);
}

}  // namespace tessera
