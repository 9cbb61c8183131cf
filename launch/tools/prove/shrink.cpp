#include "launch/tools/prove/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "core/random.h"
#include "launch/config/load_config.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/json.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "launch/train/start/derive_config.h"
#include "models/architecture.h"
#include "models/attention_plane.h"
#include "models/model.h"
#include "parallel/communicators/communicator.h"

namespace tessera {
namespace {

constexpr int64_t kSeqLength = 32;
constexpr int64_t kSourceLength = 24;
constexpr int64_t kVocabulary = 130;
constexpr int64_t kWindow = 6;
constexpr int64_t kDilation = 2;
constexpr int64_t kGlobalTokens = 2;
constexpr int64_t kPrefix = 5;
constexpr int64_t kLabels = 3;
constexpr int32_t kSpecials = 6;
const SpecialTokenIds kSpecialTokens = {{"pad", 0}, {"unk", 1},  {"cls", 2},
                                        {"sep", 3}, {"mask", 4}, {"eos", 5}};

/// The larger of `small` and `small` + 1 that is as even or odd as `size`; `size` if that is less.
int64_t smaller(int64_t size, int64_t small) { return std::min(size, small + (size - small) % 2); }

/// A reproducible sequence of random numbers.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_bits({seed_, RandomPurpose::sampling, 0, 0}, next_++) %
                                static_cast<uint64_t>(n));
  }

 private:
  uint64_t seed_;
  uint64_t next_ = 0;
};

/// Random ids, of which three quarters are determined by the previous one.
class Ids {
 public:
  Ids(int64_t vocab_size, uint64_t seed) : words_(vocab_size - kSpecials), draws_(seed) {}

  int32_t next() {
    last_ = draws_.below(4) != 0 ? (last_ * 5 + 1) % words_ : draws_.below(words_);
    return static_cast<int32_t>(kSpecials + last_);
  }
  int64_t below(int64_t n) { return draws_.below(n); }

 private:
  int64_t words_;
  int64_t last_ = 0;
  Draws draws_;
};

/// Documents of sentences, one of which has more than a row of tokens.
void write_documents(const std::string& prefix, const ModelConfig& model, int64_t tokens,
                     uint64_t seed) {
  IndexedDatasetWriter writer(prefix, {.type = TokenType::i32, .overwrite = true});
  Ids ids(model.vocab_size, seed);
  std::vector<int32_t> sentence;
  while (tokens > 0) {
    for (int64_t sentences = 1 + ids.below(6); sentences > 0 && tokens > 0; --sentences) {
      sentence.clear();
      for (int64_t left = 1 + ids.below(model.seq_length / 3); left > 0; --left, --tokens) {
        sentence.push_back(ids.next());
      }
      writer.append(sentence);
      writer.end_sequence();
    }
    writer.append(std::vector<int32_t>{kSpecialTokens.at("eos")});
    writer.end_document();
  }
  writer.finish();
}

/// Label of a text with this first id, as in a .tsv.
std::string label_of(const ModelConfig& model, int64_t first) {
  switch (model.problem_type) {
    case ProblemType::single_label_classification:
      return fmt::format("{}", first % model.num_labels);
    case ProblemType::regression:
      return fmt::format("{}", static_cast<double>(first % 7) / 2.0);
    case ProblemType::multi_label_classification:
      break;
  }
  std::vector<int64_t> labels;
  for (int64_t label = 0; label < model.num_labels; ++label) {
    if (first % (label + 2) == 0) labels.push_back(label);
  }
  return fmt::format("{}", fmt::join(labels, "|"));
}

/// Pairs of texts of ids; the first id determines the label.
std::string labeled_texts(const ModelConfig& model) {
  const bool several = model.problem_type == ProblemType::multi_label_classification;
  std::string lines = fmt::format("text\t{}\ttext_pair\n", several ? "labels" : "label");
  Ids ids(model.vocab_size, 5);
  const auto text = [&](int32_t first) {
    std::string words = fmt::format("{}", first);
    for (int64_t left = ids.below(model.seq_length / 4); left > 0; --left) {
      words += fmt::format(" {}", ids.next());
    }
    return words;
  };
  for (int line = 0; line < 400; ++line) {
    const int32_t first = ids.next();
    const std::string before = text(first);
    lines += fmt::format("{}\t{}\t{}\n", before, label_of(model, first), text(ids.next()));
  }
  return lines;
}

/// Texts of ids that belong together, because they begin with the same id.
std::string text_tuples(const ModelConfig& model) {
  std::string lines = "anchor\tpositive";
  lines += model.hard_negatives ? "\tnegative\n" : "\n";
  Ids ids(model.vocab_size, 5);
  const auto text = [&](int32_t first) {
    std::string words = fmt::format("{}", first);
    for (int64_t left = ids.below(model.seq_length / 2); left > 0; --left) {
      words += fmt::format(" {}", ids.next());
    }
    return words;
  };
  for (int line = 0; line < 400; ++line) {
    const int32_t first = ids.next();
    lines += fmt::format("{}\t{}", text(first), text(first));
    lines += model.hard_negatives ? "\t" + text(ids.next()) + "\n" : "\n";
  }
  return lines;
}

/// A header, and pairs of texts of up to `most` ids; the second mostly follows from the first.
std::string text_pairs(const ModelConfig& model, std::string_view header, int64_t most) {
  std::string lines(header);
  Ids ids(model.vocab_size, 5);
  for (int line = 0; line < 400; ++line) {
    std::string source, target;
    for (int64_t left = 1 + ids.below(most); left > 0; --left) {
      const int32_t id = ids.next();
      source += fmt::format("{} ", id);
      if (target.empty() || ids.below(5) != 0) target += fmt::format("{} ", id);
    }
    lines += fmt::format("{}\t{}\n", source, target);
  }
  return lines;
}

/// Sentences of words of one id each; the id mostly determines the label.
std::string labeled_words(const ModelConfig& model) {
  std::string lines;
  Ids ids(model.vocab_size, 5);
  for (int sentence = 0; sentence < 400; ++sentence) {
    for (int64_t left = 1 + ids.below(model.seq_length / 3); left > 0; --left) {
      const int32_t id = ids.next();
      const int64_t label = ids.below(5) == 0 ? ids.below(model.num_labels) : id % model.num_labels;
      lines += fmt::format("{}\t{}\n", id, label);
    }
    lines += '\n';
  }
  return lines;
}

/// Nine patches of gray images.
void shrink_images(ModelConfig& model) {
  constexpr int64_t kPatch = 3;
  model.patch_size = std::min(model.patch_size, kPatch);
  model.image_size = 3 * model.patch_size;
  model.num_channels = 1;
  model.image_mean.resize(1);
  model.image_std.resize(1);
  model.seq_length = model.image_tokens();
  model.vocab_size = 1;
}

std::string big_endian(int64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

/// Writes an IDX file of noise, and its labels. Returns its path.
std::string write_images(const std::filesystem::path& folder, const ModelConfig& model) {
  constexpr int64_t kImages = 240;
  Draws draws(0);
  std::string images = std::string("\0\0\x08\x03", 4) + big_endian(kImages) +
                       big_endian(model.image_size) + big_endian(model.image_size);
  std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(kImages);
  for (int64_t i = 0; i < kImages; ++i) {
    labels += static_cast<char>(draws.below(model.num_labels));
    for (int64_t pixel = model.image_size * model.image_size; pixel > 0; --pixel) {
      images += static_cast<char>(draws.below(256));
    }
  }
  write_whole_files({{folder / "labels-idx1-ubyte", labels}}, Replace::own);
  std::string path = folder / "images-idx3-ubyte";
  write_whole_files({{path, images}}, Replace::own);
  return path;
}

/// Writes a file of texts of ids for what the model learns, and returns its path; none if it learns
/// from a prepared dataset. A model that predicts the next token can do both.
std::optional<std::string> write_texts(const std::filesystem::path& folder,
                                       const ModelConfig& model, bool from_file) {
  const auto written = [&](const char* name, const std::string& lines) {
    std::string path = folder / name;
    write_whole_files({{path, lines}}, Replace::own);
    return path;
  };
  switch (traits_of(model).objective) {
    case Objective::embedding:
      return written("tuples.tsv", text_tuples(model));
    case Objective::token_classification:
      return written("labeled.tsv", labeled_words(model));
    case Objective::classification:
      return written("labeled.tsv", labeled_texts(model));
    case Objective::seq2seq: {
      const int64_t most = std::min(model.seq_length, model.resolved_source_length()) - 1;
      return written("pairs.tsv", text_pairs(model, "source\ttarget\n", most));
    }
    case Objective::causal_lm: {
      if (!from_file) return std::nullopt;
      const int64_t most = std::max<int64_t>(1, model.seq_length / 2);
      return written("prompts.tsv", text_pairs(model, "prompt\tcompletion\n", most));
    }
    case Objective::masked_lm:
      return std::nullopt;
  }
  return std::nullopt;
}

void shrink_model(ModelConfig& model) {
  const ModelConfig before = model;
  const bool has_both = before.attention_window > 0 &&
                        before.window_pattern.find('L') != std::string::npos &&
                        before.window_pattern.find('G') != std::string::npos;
  model.num_layers = std::min<int64_t>(before.num_layers, 2);
  if (has_both) model.window_pattern = before.window_pattern.front() == 'G' ? "GL" : "LG";
  const int64_t head_dim = before.num_heads > 16 ? 2 : 4;
  const int64_t attention_size = head_dim * before.num_heads;
  model.head_dim = before.head_dim == 0 ? 0 : head_dim;
  model.hidden_size =
      before.head_dim == 0
          ? attention_size
          : std::max<int64_t>(8, attention_size * before.hidden_size / before.attention_size());
  const double wider =
      static_cast<double>(before.resolved_mlp_size()) / static_cast<double>(before.hidden_size);
  model.mlp_size =
      smaller(before.resolved_mlp_size(),
              std::max<int64_t>(2, std::lround(wider * static_cast<double>(model.hidden_size))));
  model.num_decoder_layers = std::min<int64_t>(before.num_decoder_layers, 2);
  model.seq_length = smaller(before.seq_length, kSeqLength);
  if (traits_of(before).source_length > 0) {
    model.source_length = smaller(before.resolved_source_length(), kSourceLength);
  }
  model.vocab_size = smaller(before.vocab_size, kVocabulary);
  model.vocab_size = std::max<int64_t>(model.vocab_size, 2 * kSpecials);
  if (before.attention_window > 0) {
    model.attention_window = std::min(before.attention_window, kWindow);
    model.attention_dilation = smaller(before.attention_dilation, kDilation);
    model.global_tokens = smaller(before.global_tokens, kGlobalTokens);
  }
  model.attention_prefix = smaller(before.attention_prefix, kPrefix);
  if (before.rotary.original_length > 0) {
    model.rotary.original_length =
        std::max<int64_t>(1, before.rotary.original_length * model.seq_length / before.seq_length);
  }
  if (before.has_mup()) {
    // As much wider than the base as before.
    const auto base_of = [](int64_t size, int64_t base, int64_t whole) {
      return std::max<int64_t>(1, size * base / whole);
    };
    model.mup_base_hidden_size =
        base_of(model.hidden_size, before.mup_base_hidden_size, before.hidden_size);
    model.mup_base_head_dim =
        base_of(model.resolved_head_dim(), before.mup_base_head_dim, before.resolved_head_dim());
  }
  if (model.num_labels > 0) model.num_labels = std::min(model.num_labels, kLabels);
  if (before.has_images()) shrink_images(model);
  // All parts of the model have significant gradients.
  model.init_stddev = 0.1;
}

/// The first positions of the attention mask, if there are fewer than before.
void shrink_attention_plane(ShrunkRun& run) {
  ModelConfig& model = run.config.model;
  if (!model.attention_plane) return;
  const Tensor& whole = model.attention_plane->values.tensor;
  const int64_t heads = whole.dim(0), length = model.seq_length;
  if (length == whole.dim(1)) return;
  auto corner = std::make_shared<AttentionPlane>();
  corner->values = OwnedTensor({heads, length, length}, whole.dtype());
  corner->checksum = model.attention_plane->checksum;
  const size_t element = size_of(whole.dtype());
  auto* to = static_cast<std::byte*>(corner->values.tensor.raw());
  for (int64_t row = 0; row < heads * length; ++row) {
    const int64_t from = (row / length * whole.dim(1) + row % length) * whole.dim(2);
    std::memcpy(to + static_cast<size_t>(row * length) * element,
                static_cast<const std::byte*>(whole.raw()) + static_cast<size_t>(from) * element,
                static_cast<size_t>(length) * element);
  }
  model.attention_plane = corner;
  run.left_out.push_back(fmt::format(
      "of model.attention_mask_file, only the first {} positions are masked here", length));
}

void shrink_data(ShrunkRun& run, const std::filesystem::path& folder) {
  RunConfig& config = run.config;
  const RunConfig before = config;
  config.data.tokenizer = kNoTokenizer;
  config.data.special_tokens = kSpecialTokens;
  config.data.columns = {};
  config.data.eval = std::nullopt;
  config.data.eval_fraction = 0.1;
  config.data.test_fraction = 0.0;
  config.data.labels = std::nullopt;
  if (config.model.has_images()) {
    config.data.special_tokens = {};
    config.data.train = write_images(folder, config.model);
    config.augmentation.crop_padding =
        std::min<int64_t>(config.augmentation.crop_padding, config.model.image_size - 1);
    run.left_out.emplace_back("images are gray noise here, in an IDX file");
    return;
  }
  const auto is_text_file = [](const DataBlend::Part& part) { return has_columns(part.path); };
  const bool from_file = std::ranges::any_of(before.data.train.parts, is_text_file);
  if (const auto path = write_texts(folder, config.model, from_file)) {
    config.data.train = *path;
    const Objective objective = traits_of(config.model).objective;
    if (objective == Objective::seq2seq) {
      config.span_corruption = {};
      run.left_out.emplace_back("the data is pairs of texts here, also if data.train is a dataset");
    } else if (objective == Objective::causal_lm) {
      config.data.packing = Packing::documents;
      config.data.chat_template = ChatFormat::automatic;
      config.data.chat_form = nullptr;
      run.left_out.emplace_back("the data is prompts and completions of ids here, without roles");
    }
    return;
  }
  const auto parts = std::min<size_t>(before.data.train.parts.size(), 2);
  std::vector<DataBlend::Part> blend;
  for (size_t i = 0; i < parts; ++i) {
    const std::string prefix = folder / fmt::format("data{}", i);
    const auto tokens = static_cast<int64_t>(12000 / (i + 1));
    write_documents(prefix, config.model, tokens, i);
    blend.push_back({prefix, before.data.train.parts[i].weight});
  }
  config.data.train = DataBlend(blend);
  if (before.mlm.unit != MaskUnit::token) {
    config.mlm.unit = MaskUnit::token;
    config.mlm.max_span = MaskingOptions{}.max_span;
    run.left_out.emplace_back("mlm.unit is token here, because ids have no words");
  }
}

/// Leaves out patterns of names that the small model lacks, such as those of blocks above its last.
void shrink_patterns(ShrunkRun& run) {
  RunConfig& config = run.config;
  ParameterStore store;
  const auto world = make_self_communicator();
  const Model model(config.model, store, *world);
  const auto leave_out = [&](const char* key, const std::string& pattern, bool matches_any_name) {
    if (matches_any_name) return false;
    run.left_out.push_back(
        fmt::format("{} has no pattern {} here, because no parameter of the small "
                    "model has such a name",
                    key, quote(pattern)));
    return true;
  };
  std::erase_if(config.optimizer.frozen, [&](const std::string& pattern) {
    return leave_out("optimizer.frozen", pattern, matches_parameter(pattern, store));
  });
  std::erase_if(config.optimizer.trained, [&](const std::string& pattern) {
    return leave_out("optimizer.trained", pattern, matches_parameter(pattern, store));
  });
  std::erase_if(config.optimizer.lr_scales, [&](const auto& scale) {
    return leave_out("optimizer.lr_scales", scale.first, matches_parameter(scale.first, store));
  });
  if (config.model.lora_rank == 0) return;
  std::erase_if(config.model.lora_targets, [&](const std::string& pattern) {
    return leave_out("model.lora_targets", pattern, matches_adapted_layer(pattern, store));
  });
  if (config.model.lora_targets.empty()) config.model.lora_targets = ModelConfig{}.lora_targets;
}

/// Writes data of the kind that the configuration needs, so that keys can be derived from it.
void make_up_missing_data(ConfigToProve& loaded, const std::filesystem::path& folder) {
  RunConfig& config = loaded.config;
  ModelConfig model = config.model;
  // Nothing is derived from a prepared dataset.
  const auto missing = std::ranges::find_if(config.data.train.parts, [&](const auto& part) {
    return (model.has_images() || has_columns(part.path)) && !std::filesystem::exists(part.path);
  });
  if (missing == config.data.train.parts.end()) return;
  const auto wants = [&](const char* key) { return config.automatic.contains(key); };
  const bool classifies = architecture_of(model.kind).classification;
  if (wants("model.head") && classifies) model.head = Head::classification;
  if (wants("model.num_labels")) model.num_labels = kLabels;
  if (wants("model.vocab_size")) model.vocab_size = kVocabulary;
  if (wants("model.image_size")) model.image_size = 3 * model.patch_size;
  const std::string path = missing->path;
  const auto made_up = model.has_images() ? std::optional(write_images(folder, model))
                                          : write_texts(folder, model, has_columns(missing->path));
  if (!made_up) return;
  config.data.train = *made_up;
  config.data.columns = {};
  loaded.made_up.push_back(fmt::format("{} is missing: made-up data stands for it", path));
}

}  // namespace

ConfigToProve load_to_prove(const std::string& path, const std::vector<std::string>& overrides,
                            const std::filesystem::path& folder) {
  constexpr int64_t kUnknownVocabulary = 50257;  // odd, like most
  ConfigToProve loaded{load_config(path, overrides), {}};
  RunConfig& config = loaded.config;
  const std::optional<std::string> from = config.checkpoint.from;
  const bool has_from = from && std::filesystem::exists(*from);
  if (from && !has_from) {
    std::vector<std::string> without = overrides;
    without.emplace_back("checkpoint.from=null");
    config = load_config(path, without);
    loaded.made_up.push_back(
        fmt::format("checkpoint.from is missing: the model is a {} with the defaults here instead "
                    "of the one in {}",
                    architecture_of(config.model.kind).name, *from));
  }
  make_up_missing_data(loaded, folder);
  // The small run has a vocabulary of its own.
  if (config.automatic.erase("model.vocab_size") > 0) config.model.vocab_size = kUnknownVocabulary;
  config = derive_config(config, 1, DeriveFor::planning).config;
  config.checkpoint.from = from;
  return loaded;
}

ShrunkRun shrink(const RunConfig& config, const std::filesystem::path& folder) {
  ShrunkRun run{config, {}};
  RunConfig& small = run.config;
  small.run.dir = folder / "run";
  small.run.device = DeviceChoice::cpu;
  if (config.run.precision.fp8) {
    run.left_out.emplace_back(
        "run.precision is fp32 and bf16 here instead of fp8, because layers this small have no "
        "128 features to share a scale");
  }
  small.run.precision = DType::f32;
  small.run.tf32 = false;
  small.run.product_algorithms = ProductAlgorithms::automatic;
  shrink_model(small.model);
  shrink_attention_plane(run);
  shrink_patterns(run);
  constexpr double kScale = 5.0;
  if (small.model.head == Head::embedding && small.model.similarity_scale > kScale) {
    small.model.similarity_scale = kScale;
    run.left_out.emplace_back(
        "model.similarity_scale is 5 here, because it multiplies the rounding errors of "
        "embeddings");
  }
  shrink_data(run, folder);
  small.parallel.tensor = small.parallel.context = 1;
  small.parallel.zero = small.parallel.shard = 0;
  small.parallel.sequence = false;
  small.parallel.grad_reduce_dtype = DType::f32;
  small.parallel.backend = Backend::automatic;
  small.batch.global = 24;
  small.batch.micro = 1;
  small.train.cuda_graph = CudaGraph::automatic;
  if (config.train.cudnn_dropout) {
    small.train.cudnn_dropout = false;
    run.left_out.emplace_back("train.cudnn_dropout is false here, because ranks use the CPU");
  }
  small.train.steps = 20;
  small.train.epochs = 0.0;
  small.automatic.erase("train.steps");
  if (small.optimizer.name == OptimizerName::lion) {
    small.optimizer.name = OptimizerName::adamw;
    run.left_out.emplace_back(
        "optimizer.name is adamw here, because rounding can change the sign of an update of lion");
  }
  if (small.optimizer.moment_dtype != DType::f32) {
    small.optimizer.moment_dtype = DType::f32;
    run.left_out.emplace_back(
        "optimizer.moment_dtype is fp32 here, because the last bit of a gradient can change how a "
        "moment is rounded");
  }
  small.optimizer.lr = 1e-2;
  small.optimizer.min_lr = 0.0;
  small.optimizer.warmup_steps = 2;
  // An update is at most lr × (gradient error) / eps. A large eps thus keeps weights whose gradient
  // is only rounding error from moving by a full lr in a random direction.
  small.optimizer.eps = 1e-2;
  small.optimizer.stochastic_rounding = false;
  if (!small.eval.prompts.empty()) {
    run.left_out.emplace_back("eval.prompts is empty here, because ids are no texts");
  }
  small.eval = {};
  small.eval.batches = 2;
  small.checkpoint = {};
  small.checkpoint.from = config.checkpoint.from;  // adapters need one; nothing reads it here
  small.log = {};
  small.automatic.clear();
  return run;
}

}  // namespace tessera
