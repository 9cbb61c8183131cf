#include "tests/support/runs/small_runs.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/format/safetensors.h"
#include "launch/data/indexed/indexed_dataset_writer.h"
#include "launch/tokenizers/wordpiece/wordpiece_vocabulary.h"
#include "models/architecture.h"
#include "tests/support/image_files.h"

namespace tessera::test {
namespace {

constexpr int32_t kSpecials = std::size(kBertSpecial);
constexpr int32_t kWords = kSmallVocabulary - kSpecials;
constexpr int64_t kLabels = 3;

/// A reproducible sequence of random numbers.
class Draws {
 public:
  int64_t below(int64_t n) {
    return random_bits({3, RandomPurpose::sampling, 0, 0}, next_++) % static_cast<uint64_t>(n);
  }

 private:
  uint64_t next_ = 0;
};

/// Three quarters of the tokens are determined by the previous one.
int32_t token_after(int32_t token, Draws& draws) {
  if (draws.below(4) != 0) return kSpecials + (token * 5 + 1) % kWords;
  return kSpecials + static_cast<int32_t>(draws.below(kWords));
}

/// Writes lines of words, none of them continuations; the first determines the label.
void write_texts(const std::string& path) {
  std::ofstream file(path);
  file << "text\tlabel\ttext_pair\n";
  Draws draws;
  const auto words = [&](int64_t first) {
    std::string text = fmt::format("w{}", first);
    for (int64_t left = draws.below(5); left > 0; --left) {
      text += fmt::format(" w{}", 3 * draws.below(kWords / 3));
    }
    return text;
  };
  for (int line = 0; line < 200; ++line) {
    const int64_t first = draws.below(kWords / 3);
    file << words(3 * first) << '\t' << first % kLabels << '\t' << words(0) << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

/// Writes lines of words; the first determines the labels.
void write_label_sets(const std::string& path) {
  std::ofstream file(path);
  file << "text\tlabels\n";
  Draws draws;
  for (int line = 0; line < 200; ++line) {
    const int64_t first = draws.below(kWords / 3);
    file << fmt::format("w{} w{}", 3 * first, 3 * draws.below(kWords / 3)) << '\t';
    std::string separator;
    for (int64_t label = 0; label < kLabels; ++label) {
      if (first % (label + 2) != 0) continue;
      file << separator << label;
      separator = "|";
    }
    file << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

/// Writes sentences of words with labels that mostly follow from the word; some words are of two
/// tokens.
void write_labeled_words(const std::string& path) {
  std::ofstream file(path);
  Draws draws;
  for (int sentence = 0; sentence < 200; ++sentence) {
    for (int64_t left = 1 + draws.below(7); left > 0; --left) {
      const int64_t word = draws.below(kWords / 3);
      const char* continued = draws.below(3) == 0 ? "w2" : "";
      const int64_t label = draws.below(5) == 0 ? draws.below(4) : word % 4;
      constexpr std::string_view kNames[] = {"O", "B-X", "I-X", "B-Y"};
      file << 'w' << 3 * word << continued << '\t' << kNames[label] << '\n';
    }
    file << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

/// Writes texts that belong together if they begin with the same word, with or without negatives.
void write_text_tuples(const std::string& path, bool negatives) {
  std::ofstream file(path);
  file << "anchor\tpositive" << (negatives ? "\tnegative\n" : "\n");
  Draws draws;
  const auto words = [&](int64_t first) {
    std::string text = fmt::format("w{}", 3 * first);
    for (int64_t left = draws.below(9); left > 0; --left) {
      text += fmt::format(" w{}", 3 * draws.below(kWords / 3));
    }
    return text;
  };
  for (int line = 0; line < 200; ++line) {
    const int64_t first = draws.below(kWords / 3);
    file << words(first) << '\t' << words(first);
    if (negatives) file << '\t' << words(draws.below(kWords / 3));
    file << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

/// Writes images of noise, in which rows of a place that depends on the label are bright: an IDX
/// file with its labels, and a file in CIFAR-10's format.
void write_small_images(const TestFolder& folder) {
  constexpr uint32_t kImages = 100;
  Draws draws;
  const auto image = [&](int64_t rows, int64_t columns, int64_t label) {
    std::string pixels;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const bool bright = i / columns * kLabels / rows == label;
      pixels += static_cast<char>(draws.below(200) + (bright ? 55 : 0));
    }
    return pixels;
  };
  std::string images, labels, cifar;
  for (uint32_t i = 0; i < kImages; ++i) {
    const int64_t label = draws.below(kLabels);
    labels += static_cast<char>(label);
    images += image(12, 12, label);
    cifar += static_cast<char>(label);
    for (int color = 0; color < 3; ++color) cifar += image(32, 32, label);
  }
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream file(folder / name, std::ios::binary);
    file << bytes;
    require(file.flush().good(), "{} cannot be written", folder / name);
  };
  write("images-idx3-ubyte", idx({kImages, 12, 12}, images));
  write("labels-idx1-ubyte", idx({kImages}, labels));
  write("images.bin", cifar);
}

/// Writes pairs of texts, the target mostly determined by the source.
void write_text_pairs(const std::string& path) {
  std::ofstream file(path);
  file << "source\ttarget\n";
  Draws draws;
  for (int line = 0; line < 200; ++line) {
    std::string source, target;
    for (int64_t left = 1 + draws.below(15); left > 0; --left) {
      const int64_t word = draws.below(kWords / 3);
      source += fmt::format("w{} ", 3 * word);
      if (draws.below(5) != 0) target = fmt::format("w{} ", 3 * (kWords / 3 - 1 - word)) + target;
    }
    file << source << '\t' << (target.empty() ? "w0" : target) << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

/// Writes prompts of ids and completions that mostly repeat them.
void write_prompts(const std::string& path) {
  std::ofstream file(path);
  file << "prompt\tcompletion\n";
  Draws draws;
  for (int line = 0; line < 200; ++line) {
    std::string prompt, completion;
    for (int64_t left = 1 + draws.below(17); left > 0; --left) {
      const int64_t id = 1 + draws.below(kSmallVocabulary - 1);
      prompt += fmt::format("{} ", id);
      if (draws.below(3) != 0) completion += fmt::format("{} ", id);
    }
    file << prompt << '\t' << (completion.empty() ? "1" : completion) << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

void write_sentences(const std::string& prefix, int64_t tokens) {
  IndexedDatasetWriter writer(prefix, {TokenType::u16, /*overwrite=*/true});
  Draws draws;
  int32_t token = 0;
  while (tokens > 0) {
    for (int64_t sentences = 1 + draws.below(6); sentences > 0 && tokens > 0; --sentences) {
      std::vector<int32_t> sentence;
      for (int64_t left = std::min(1 + draws.below(9), tokens); left > 0; --left, --tokens) {
        sentence.push_back(token = token_after(token, draws));
      }
      writer.append(sentence);
      writer.end_sequence();
    }
    writer.end_document();
  }
  writer.finish();
}

void make_bert(RunConfig& config) {
  apply_preset(config.model, ModelKind::bert);
  config.model.token_types = 2;
}

/// Square images, of `channels` numbers in each pixel.
struct SmallImages {
  int64_t size, channels;
};

void make_vit(RunConfig& config, SmallImages images, int64_t patch_size) {
  apply_preset(config.model, ModelKind::vit);
  config.model.head = Head::classification;
  config.model.num_labels = kLabels;
  config.model.image_size = images.size;
  config.model.num_channels = images.channels;
  config.model.patch_size = patch_size;
  config.model.seq_length = config.model.image_tokens();
  config.model.vocab_size = 1;
  config.data.tokenizer = "none";
}

void add_dropout(RunConfig& config) {
  config.model.dropout = 0.2;
  config.model.attention_dropout = 0.3;
}

void make_qwen3(RunConfig& config) {
  apply_preset(config.model, ModelKind::qwen3);
  config.model.num_heads = 6;
  config.model.num_kv_heads = 3;  // of 4 tensor ranks, one has none
  config.model.head_dim = 6;      // heads are not as wide together as the model
  config.model.mlp_size = 45;
  config.model.bias = Bias::qkv;
  config.model.rotary.scaling = RotaryScaling::yarn;
  config.model.rotary.factor = 4.0;
  config.model.rotary.original_length = 8;
  add_dropout(config);
}

/// With a base of three quarters of the width.
void add_mup(ModelConfig& model) {
  model.mup_base_hidden_size = model.hidden_size * 3 / 4;
  model.mup_base_head_dim = model.resolved_head_dim() * 3 / 4;
}

/// Takes more of the smaller dataset than it has, so that it is repeated.
DataBlend small_blend(const TestFolder& folder) {
  return DataBlend({{folder / "data", 1.0}, {folder / "half", 2.0}});
}

/// Writes a mask file that hides half of the pairs of different positions, and reads it.
void add_planes(RunConfig& config, const TestFolder& folder, int64_t heads, DType dtype) {
  ModelConfig& model = config.model;
  const int64_t length = model.seq_length;
  const OwnedTensor plane({heads, length, length}, dtype);
  Draws draws;
  for (int64_t i = 0; i < plane.tensor.numel(); ++i) {
    const bool is_own = i / length % length == i % length;
    const bool hides = draws.below(2) == 0 && !is_own;
    if (dtype == DType::u8) {
      plane.tensor.data<uint8_t>()[i] = hides ? 1 : 0;
    } else {
      const float added = static_cast<float>(draws.below(9)) / 4.0f - 1.0f;
      plane.tensor.data<float>()[i] = hides ? -std::numeric_limits<float>::infinity() : added;
    }
  }
  const std::string path = folder / "mask.safetensors";
  std::ofstream(path, std::ios::binary)
      << safetensors_bytes(dtype == DType::u8 ? "hidden" : "additive", plane.tensor);
  model.attention_mask_file = path;
  load_attention_mask(model);
}

void change(RunConfig& config, SmallKind kind, const TestFolder& folder) {
  switch (kind) {
    case SmallKind::gpt:
      return;
    case SmallKind::gpt_documents:
      config.model.positions = Positions::rotary;
      config.model.attention_window = 5;
      config.data.separate_documents = true;
      config.data.loss_across_documents = false;
      return;
    case SmallKind::gpt_packed:
      add_dropout(config);
      config.model.positions = Positions::alibi;
      config.model.bias = Bias::attention;
      config.model.num_heads = 3;  // of 4 tensor ranks, one has none
      config.model.head_dim = 10;
      config.data.packing = Packing::documents;
      return;
    case SmallKind::gpt_blend:
      add_dropout(config);
      config.model.positions = Positions::relative;
      config.model.attention_scale = 1.0;  // as in T5
      config.model.embedding_norm = true;
      config.model.relative_buckets = 8;
      config.model.relative_max_distance = 12;
      config.data.train = small_blend(folder);
      return;
    case SmallKind::prefix_lm:
      add_dropout(config);
      config.model.positions = Positions::alibi;
      config.model.attention_prefix = 5;
      config.model.attention_window = 3;
      config.model.window_pattern = "LG";
      config.model.global_tokens = 2;
      config.data.packing = Packing::documents;
      return;
    case SmallKind::planes:
      add_dropout(config);
      config.model.positions = Positions::alibi;
      config.model.num_heads = 3;  // of 4 tensor ranks, one has none
      config.model.head_dim = 10;
      config.data.packing = Packing::documents;
      add_planes(config, folder, 3, DType::u8);
      return;
    case SmallKind::prompts:
      add_dropout(config);
      config.model.positions = Positions::rotary;
      config.model.attention_window = 5;
      config.model.num_heads = 3;  // of 4 tensor ranks, one has none
      config.model.head_dim = 10;
      config.data.train = folder / "prompts.tsv";
      config.data.tokenizer = "none";
      config.data.special_tokens = {{"eos", 0}};
      config.data.packing = Packing::documents;
      config.data.truncate = true;
      return;
    case SmallKind::qwen3:
      make_qwen3(config);
      return;
    case SmallKind::muon:
      make_qwen3(config);
      config.optimizer.name = OptimizerName::muon;
      add_mup(config.model);
      return;
    case SmallKind::adapters:
      make_qwen3(config);
      config.model.lora_rank = 3;
      config.model.lora_alpha = 12.0;
      config.model.lora_dropout = 0.2;
      return;
    case SmallKind::bert_pairs:
      make_bert(config);
      config.model.next_sentence = true;
      return;
    case SmallKind::bert_packed:
      make_bert(config);
      add_dropout(config);
      config.data.short_samples = ShortSamples::pack;
      config.mlm.unit = MaskUnit::whole_word;
      return;
    case SmallKind::modernbert:
      apply_preset(config.model, ModelKind::modernbert);
      config.model.num_heads = 3;
      config.model.head_dim = 10;
      config.model.attention_window = 4;
      config.model.window_pattern = "GL";
      config.mlm.unit = MaskUnit::span;
      config.mlm.max_span = 3;
      return;
    case SmallKind::longformer:
      make_bert(config);
      config.model.positions = Positions::relative;
      config.model.relative_max_distance = 12;
      config.model.attention_window = 3;
      config.model.attention_dilation = 2;
      config.model.global_tokens = 2;
      config.model.window_pattern = "LG";
      config.mlm.hide = MaskHide::attention;
      config.data.short_samples = ShortSamples::pack;
      add_mup(config.model);
      return;
    case SmallKind::added_planes:
      make_bert(config);
      config.model.attention_window = 5;
      config.model.window_pattern = "LG";
      config.data.short_samples = ShortSamples::pack;
      add_planes(config, folder, 1, DType::f32);
      return;
    case SmallKind::bert_blend:
      make_bert(config);
      config.model.positions = Positions::relative;
      config.model.num_heads = 3;
      config.model.head_dim = 10;
      config.model.relative_max_distance = 12;
      config.data.train = small_blend(folder);
      return;
    case SmallKind::classifier:
      make_bert(config);
      add_dropout(config);
      config.model.head = Head::classification;
      config.model.num_labels = kLabels;
      config.data.train = folder / "texts.tsv";
      return;
    case SmallKind::multi_label:
      apply_preset(config.model, ModelKind::roberta);
      config.model.head = Head::classification;
      config.model.problem_type = ProblemType::multi_label_classification;
      config.model.num_labels = kLabels;
      config.data.train = folder / "label_sets.tsv";
      return;
    case SmallKind::words:
      apply_preset(config.model, ModelKind::modernbert);
      add_dropout(config);
      config.model.attention_window = 4;
      config.model.head = Head::token_classification;
      config.model.num_labels = 4;
      config.data.labels = "O,B-X,I-X,B-Y";
      config.data.train = folder / "words.tsv";
      return;
    case SmallKind::embeddings:
      make_bert(config);
      add_dropout(config);
      config.model.head = Head::embedding;
      config.model.hard_negatives = true;
      config.model.symmetric_loss = true;
      config.model.similarity_scale = 5.0;
      config.data.train = folder / "triples.tsv";
      return;
    case SmallKind::embeddings_cls:
      apply_preset(config.model, ModelKind::modernbert);
      config.model.attention_window = 4;
      config.model.head = Head::embedding;
      config.model.embedding_pooling = Pooling::cls;
      config.model.similarity_scale = 2.0;  // multiplies the rounding errors of embeddings
      config.data.train = folder / "tuples.tsv";
      return;
    case SmallKind::mean_classifier:
      apply_preset(config.model, ModelKind::modernbert);
      add_dropout(config);
      config.model.attention_window = 4;
      config.model.head = Head::classification;
      config.model.classifier_pooling = Pooling::mean;
      config.model.num_labels = kLabels;
      config.data.train = folder / "texts.tsv";
      return;
    case SmallKind::translation:
      apply_preset(config.model, ModelKind::encoder_decoder);
      add_dropout(config);
      config.model.num_decoder_layers = 1;
      config.model.num_heads = 3;  // of 4 tensor ranks, one has none
      config.model.head_dim = 10;
      config.model.source_length = 20;
      config.data.train = folder / "pairs.tsv";
      return;
    case SmallKind::span_corruption:
      apply_preset(config.model, ModelKind::encoder_decoder);
      config.model.positions = Positions::rotary;
      config.model.norm = NormType::rms;
      config.model.gated_mlp = true;
      config.model.num_kv_heads = 2;
      config.model.source_length = 24;
      config.span_corruption.noise_density = 0.4;
      config.span_corruption.sentinels = 9;
      config.model.vocab_size += config.span_corruption.sentinels;
      add_mup(config.model);
      return;
    case SmallKind::t5:
      apply_preset(config.model, ModelKind::t5);
      add_dropout(config);
      config.model.num_decoder_layers = 3;
      config.model.num_heads = 3;  // of 4 tensor ranks, one has none
      config.model.head_dim = 10;
      config.model.mlp_size = 45;
      config.model.source_length = 20;
      config.model.relative_max_distance = 18;
      config.span_corruption.sentinels = 9;
      config.model.vocab_size += config.span_corruption.sentinels;
      return;
    case SmallKind::images:
      make_vit(config, {12, 1}, 4);
      add_dropout(config);
      config.model.num_heads = 3;  // of 4 tensor ranks, one has none
      config.model.head_dim = 10;
      config.data.train = folder / "images-idx3-ubyte";
      return;
    case SmallKind::mean_images:
      make_vit(config, {32, 3}, 8);
      config.model.image_mean = {0.4, 0.5, 0.6};
      config.augmentation = {.crop_padding = 2, .horizontal_flip = true};
      config.model.classifier_pooling = Pooling::mean;
      config.model.seq_length = config.model.image_tokens();
      config.data.train = folder / "images.bin";
      add_mup(config.model);
      return;
    case SmallKind::frozen:
      make_bert(config);
      config.optimizer.frozen = {"embedding.word", "blocks.0.attention*", "blocks.1.*.bias",
                                 "blocks.1.mlp_norm.weight"};
      config.optimizer.lr_scales = {{"blocks.*", 0.5}, {"blocks.1.mlp.*", 2.0}};
      config.optimizer.layer_lr_decay = 0.7;
      return;
  }
}

}  // namespace

std::string to_string(SmallKind kind) {
  switch (kind) {
    case SmallKind::gpt:
      return "gpt";
    case SmallKind::gpt_documents:
      return "gpt_documents";
    case SmallKind::gpt_packed:
      return "gpt_packed";
    case SmallKind::gpt_blend:
      return "gpt_blend";
    case SmallKind::prefix_lm:
      return "prefix_lm";
    case SmallKind::planes:
      return "planes";
    case SmallKind::prompts:
      return "prompts";
    case SmallKind::qwen3:
      return "qwen3";
    case SmallKind::muon:
      return "muon";
    case SmallKind::adapters:
      return "adapters";
    case SmallKind::bert_pairs:
      return "bert_pairs";
    case SmallKind::bert_packed:
      return "bert_packed";
    case SmallKind::modernbert:
      return "modernbert";
    case SmallKind::longformer:
      return "longformer";
    case SmallKind::added_planes:
      return "added_planes";
    case SmallKind::bert_blend:
      return "bert_blend";
    case SmallKind::classifier:
      return "classifier";
    case SmallKind::multi_label:
      return "multi_label";
    case SmallKind::words:
      return "words";
    case SmallKind::embeddings:
      return "embeddings";
    case SmallKind::embeddings_cls:
      return "embeddings_cls";
    case SmallKind::mean_classifier:
      return "mean_classifier";
    case SmallKind::translation:
      return "translation";
    case SmallKind::span_corruption:
      return "span_corruption";
    case SmallKind::t5:
      return "t5";
    case SmallKind::images:
      return "images";
    case SmallKind::mean_images:
      return "mean_images";
    case SmallKind::frozen:
      return "frozen";
  }
  return "?";
}

void write_vocabulary(const std::string& path, int32_t tokens) {
  std::ofstream file(path);
  for (const std::string_view special : kBertSpecial) file << special << '\n';
  for (int32_t word = 0; word < tokens - kSpecials; ++word) {
    file << (word % 3 == 2 ? kContinuation : "") << 'w' << word << '\n';
  }
  require(file.flush().good(), "{} cannot be written", path);
}

void write_small_data(const TestFolder& folder, int64_t tokens) {
  write_vocabulary(folder / "vocab.txt", kSmallVocabulary);
  write_sentences(folder / "data", tokens);
  write_sentences(folder / "half", tokens / 2);
  write_texts(folder / "texts.tsv");
  write_label_sets(folder / "label_sets.tsv");
  write_labeled_words(folder / "words.tsv");
  write_text_tuples(folder / "tuples.tsv", /*negatives=*/false);
  write_text_tuples(folder / "triples.tsv", /*negatives=*/true);
  write_text_pairs(folder / "pairs.tsv");
  write_prompts(folder / "prompts.tsv");
  write_small_images(folder);
}

RunConfig small_run(const TestFolder& folder, const std::string& run, SmallKind kind) {
  RunConfig config;
  config.run.dir = folder / run;
  config.run.seed = 7;
  config.model.num_layers = 2;
  config.model.hidden_size = 32;
  config.model.num_heads = 4;
  config.model.seq_length = 16;
  config.model.vocab_size = kSmallVocabulary;
  config.model.dropout = 0.0;
  config.model.attention_dropout = 0.0;
  config.model.init_stddev = 0.1;  // so that all parts of the model have significant gradients
  config.data.train = folder / "data";
  config.data.tokenizer = "wordpiece:" + (folder / "vocab.txt");
  config.data.eval_fraction = 0.1;
  config.batch.global = 8;
  config.batch.micro = 2;
  config.train.steps = 20;
  config.optimizer.lr = 1e-2;
  config.optimizer.warmup_steps = 3;
  // An update is at most lr × (gradient error) / eps. A large eps thus keeps weights whose gradient
  // is only rounding error from moving by a full lr in a random direction.
  config.optimizer.eps = 1e-2;
  config.eval.batches = 3;
  change(config, kind, folder);
  return config;
}

ModelConfig gpt2_model() {
  ModelConfig model;
  model.num_layers = model.num_heads = 12;
  model.hidden_size = 768;
  model.seq_length = 1024;
  model.vocab_size = 50257;
  return model;
}

void write_documents(const std::string& prefix,
                     const std::vector<std::vector<int32_t>>& documents) {
  IndexedDatasetWriter writer(prefix, {TokenType::u16, /*overwrite=*/true});
  for (const std::vector<int32_t>& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
}

}  // namespace tessera::test
