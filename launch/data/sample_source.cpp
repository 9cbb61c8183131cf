#include "launch/data/sample_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "launch/config/label_names.h"
#include "launch/config/values/source_text.h"
#include "launch/data/datasets/bert_dataset.h"
#include "launch/data/datasets/gpt_dataset.h"
#include "launch/data/datasets/gpt_packed_dataset.h"
#include "launch/data/datasets/row_reader.h"
#include "launch/data/datasets/sft_dataset.h"
#include "launch/data/datasets/sft_lines.h"
#include "launch/data/datasets/span_corruption.h"
#include "launch/data/datasets/text_encoders.h"
#include "launch/data/datasets/text_pairs.h"
#include "launch/data/datasets/text_tuples.h"
#include "launch/data/images/image_dataset.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/support/files/mapped_file.h"
#include "launch/support/text/human_text.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "launch/tokenizers/tokenizer_identity.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// Names the run's tokenizer in messages. One of a dataset or a checkpoint has no specification.
std::string name_of_tokenizer(const RunConfig& config) {
  if (config.automatic.contains("data.tokenizer")) return "the tokenizer of the run";
  if (config.data.tokenizer.empty()) return "the checkpoint's tokenizer";
  return fmt::format("data.tokenizer, {},", config.data.tokenizer);
}

std::string what_to_do(const RunConfig& config) {
  if (config.data.tokenizer.empty()) return "choose text that was prepared with the same tokenizer";
  return fmt::format(
      "set data.tokenizer to the one that made them, or prepare the text again with `tessera "
      "prepare --tokenizer {}`",
      config.data.tokenizer);
}

/// Without a tokenizer, a run accepts tokens of any, but only if the config asks for that.
void check_ids(const RunConfig& config, const DatasetMetadata& metadata,
               const IndexedDataset& tokens, std::vector<std::string>& notes) {
  const std::string path = metadata_path(tokens.prefix());
  const std::string made_by = excerpt(to_string(metadata.tokenizer), 200);
  const int64_t sentinels = num_sentinels(config);
  require(
      metadata.tokenizer.vocab_size <= tokens.vocab_size(),
      "{} says that its tokens were made by {}, but model.vocab_size is {}{}: choose {} or more",
      path, made_by, config.model.vocab_size,
      sentinels == 0 ? "" : fmt::format(" and span_corruption.sentinels is {}", sentinels),
      metadata.tokenizer.vocab_size + sentinels);
  if (metadata.tokenizer.kind == kNoTokenizer) return;
  require(!config.automatic.contains("data.tokenizer"),
          "{} says that its tokens were made by {}, but the run has no tokenizer: to train on ids "
          "alone set data.tokenizer to none",
          path, made_by);
  notes.push_back(fmt::format("{}: its tokens were made by {}, and are used as ids, because {}",
                              tokens.prefix(), made_by,
                              config.data.tokenizer.empty() ? "the checkpoint has no tokenizer"
                                                            : "data.tokenizer is none"));
}

/// Refuses tokens of another tokenizer, which would mean something else.
void check_tokenizer(const RunConfig& config, const Tokenizer& tokenizer,
                     const IndexedDataset& tokens, std::vector<std::string>& notes) {
  const std::optional<DatasetMetadata> metadata = read_metadata(tokens);
  if (is_none(tokenizer)) {
    if (metadata) check_ids(config, *metadata, tokens, notes);
    return;
  }
  if (!metadata) {
    notes.push_back(
        fmt::format("{}: there is no {}, so Tessera cannot check whether {} made its tokens",
                    tokens.prefix(), metadata_path(tokens.prefix()), name_of_tokenizer(config)));
    return;
  }
  const TokenizerIdentity identity = identity_of(tokenizer);
  require(metadata->tokenizer == identity,
          "{} says that its tokens were made by {}, but {} is {}: {}",
          metadata_path(tokens.prefix()), excerpt(to_string(metadata->tokenizer), 200),
          name_of_tokenizer(config), to_string(identity), what_to_do(config));
}

/// A prepared dataset.
class TokenSource : public SampleSource {
 public:
  TokenSource(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
              const std::string& path, int64_t vocab_size, std::vector<std::string>& notes)
      : data_(config.data),
        seq_length_(config.model.seq_length),
        tokens_(std::make_shared<const IndexedDataset>(path, vocab_size)),
        tokenizer_(std::move(tokenizer)) {
    check_tokenizer(config, *tokenizer_, *tokens_, notes);
  }

  int64_t size() const override { return tokens_->num_tokens(); }
  std::string identity() const override { return tokens_->identity(); }
  double bytes_per_token() const override {
    const std::optional<DatasetMetadata> metadata = read_metadata(*tokens_);
    if (!metadata || metadata->tokens == 0) return 0.0;
    return static_cast<double>(metadata->bytes) / static_cast<double>(metadata->tokens);
  }

 protected:
  DataSection data_;
  int64_t seq_length_;
  std::shared_ptr<const IndexedDataset> tokens_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

/// Whether any of a config's data is a file of texts, and not a prepared dataset, for which
/// `holds`.
bool any_text_file(const DataSection& data,
                   const std::function<bool(const std::string& path)>& holds) {
  const auto is_one = [&](const DataBlend::Part& part) {
    return has_columns(part.path) && holds(part.path);
  };
  return std::ranges::any_of(data.train.parts, is_one) ||
         (data.eval && std::ranges::any_of(data.eval->parts, is_one));
}

/// Refuses keys of supervised fine-tuning if no data is for it.
void require_no_sft_keys(const DataSection& data, const std::string& path) {
  if (any_text_file(data, [](const std::string&) { return true; })) return;
  const char* key = data.truncate                                 ? "data.truncate"
                    : data.loss_on_prompts                        ? "data.loss_on_prompts"
                    : data.chat_template != ChatFormat::automatic ? "data.chat_template"
                                                                  : nullptr;
  require(
      key == nullptr,
      "{} is set, but {} is a prepared dataset, and not a file of prompts and completions (.jsonl, "
      ".json, .csv or .tsv): leave it out",
      key == nullptr ? "" : key, path);
}

class GptSource final : public TokenSource {
 public:
  // Checks tokens against the model's vocabulary only: a GPT may learn from tokens of any
  // tokenizer.
  GptSource(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
            const std::string& path, std::vector<std::string>& notes)
      : TokenSource(config, std::move(tokenizer), path, config.model.vocab_size, notes) {
    require_no_sft_keys(config.data, path);
  }

  std::shared_ptr<const Dataset> samples(Range range, const SampleUse& /*use*/) const override {
    if (data_.packing == Packing::documents) {
      return std::make_shared<const GptPackedDataset>(tokens_, range, seq_length_);
    }
    GptDataOptions options;
    options.separate_documents = data_.separate_documents;
    options.loss_across_documents = data_.loss_across_documents;
    return std::make_shared<const GptDataset>(tokens_, range, seq_length_, options);
  }
};

/// Prompts and completions or conversations, tokenized on loading.
class SftSource final : public SampleSource {
 public:
  SftSource(const RunConfig& config, const Tokenizer& tokenizer, const std::string& path,
            std::vector<std::string>& notes) {
    const DataSection& data = config.data;
    require(data.packing == Packing::documents || !packed_examples(config),
            "data.packing is concatenate, but {} has prompts and completions, which are packed "
            "whole and do not see each other: choose documents, or leave the key out",
            path);
    const auto speaks = [&](const std::string& any) { return has_messages(any, data.columns); };
    const bool has_roles = speaks(path);
    require(data.chat_template == ChatFormat::automatic || any_text_file(data, speaks),
            "data.chat_template is set, but {} has prompts and completions, which nothing "
            "surrounds: leave it out, or write messages",
            path);
    const ChatTemplate chat =
        has_roles ? ChatTemplate(chosen_chat_form(data.chat_template, data.chat_form, tokenizer),
                                 tokenizer)
                  : ChatTemplate::without_roles(tokenizer);
    form_ = chat.form();
    examples_ = std::make_shared<const SftExamples>(
        path, chat,
        SftOptions{config.model.seq_length, data.truncate, data.loss_on_prompts,
                   config.model.attention_prefix},
        RowOptions{data.columns, &notes});
    note(notes);
  }

  int64_t size() const override { return examples_->size(); }

  std::shared_ptr<const ChatForm> chat() const override { return form_; }

  std::string identity() const override {
    return fmt::format("{} examples, {}", size(), sampled_checksum(MappedFile(examples_->path())));
  }

  std::shared_ptr<const Dataset> samples(Range range, const SampleUse& /*use*/) const override {
    return std::make_shared<const SftDataset>(examples_, range);
  }

 private:
  void note(std::vector<std::string>& notes) const {
    const SftExamples& all = *examples_;
    notes.push_back(fmt::format("{}: {} examples of {} tokens{}, of which the model learns {}",
                                all.path(), grouped(all.size()), grouped(all.num_tokens()),
                                form_ ? fmt::format(" in template {}", form_->name) : "",
                                grouped(all.num_targets())));
    if (!all.first_token_name().empty()) {
      notes.push_back(
          fmt::format("{}, which is text there: does the data have the template's "
                      "tokens in it?",
                      all.first_token_name()));
    }
    if (all.num_truncated() > 0) {
      notes.push_back(fmt::format("{}: {} of {} examples were truncated to {} tokens", all.path(),
                                  all.num_truncated(), all.size(), all.seq_length() + 1));
    }
    if (all.num_left_out() > 0) {
      notes.push_back(fmt::format(
          "{}: {} examples are left out, because nothing of their completions fits into {} tokens",
          all.path(), all.num_left_out(), all.seq_length() + 1));
    }
  }

  std::shared_ptr<const SftExamples> examples_;
  std::shared_ptr<const ChatForm> form_;  // null without roles
};

class BertSource final : public TokenSource {
 public:
  BertSource(const RunConfig& config, const std::shared_ptr<const Tokenizer>& tokenizer,
             const std::string& path, std::vector<std::string>& notes)
      : TokenSource(config, tokenizer, path, tokenizer->vocab_size(), notes) {
    options_.sentence_pairs = config.model.next_sentence;
    options_.packing = config.data.short_samples == ShortSamples::pack;
    options_.masking = config.mlm;
  }

  std::shared_ptr<const Dataset> samples(Range range, const SampleUse& use) const override {
    return make_bert_dataset(tokens_, range, seq_length_, tokenizer_->traits(), options_, use.seed);
  }

 private:
  BertDataOptions options_;
};

Labels labels_of(const RunConfig& config) {
  Labels labels{config.model.num_labels, {}, config.model.problem_type};
  if (config.data.labels) labels.names = label_names(*config.data.labels);
  return labels;
}

/// Reads the file that the objective needs: labeled texts or words, tuples or pairs.
std::shared_ptr<const TextSamples> read_texts(const RunConfig& config, const Tokenizer& tokenizer,
                                              const std::string& path, const RowOptions& options) {
  const ModelTraits traits = traits_of(config.model);
  const int64_t seq_length = config.model.seq_length;
  const bool truncate = config.data.truncate;
  if (traits.objective == Objective::seq2seq) {
    require(config.span_corruption == SpanCorruptionOptions{},
            "a key of span_corruption is set, but {} has pairs of texts: leave it out, or choose a "
            "prepared dataset",
            path);
    return read_pairs(path, PairEncoder(tokenizer, traits.source_length, seq_length, truncate),
                      options);
  }
  if (traits.token_labels) {
    return read_labeled(path, labels_of(config), WordEncoder(tokenizer, seq_length, truncate),
                        options);
  }
  const ClassificationEncoder encoder([&](std::string_view text) { return tokenizer.encode(text); },
                                      tokenizer.traits(), seq_length, truncate);
  if (traits.objective == Objective::embedding) {
    return read_tuples(path, {config.model.hard_negatives, config.model.symmetric_loss}, encoder,
                       options);
  }
  auto texts = read_labeled(path, labels_of(config), encoder, options);
  require(!texts->has_pairs() || config.model.token_types != 1,
          "{} has pairs of texts, which need two token types, but model.token_types is 1: choose "
          "2, or 0 for a model without such an embedding",
          path);
  return texts;
}

/// A file of texts, tokenized on loading.
class TextSource final : public SampleSource {
 public:
  TextSource(const RunConfig& config, const Tokenizer& tokenizer, const std::string& path,
             std::vector<std::string>& notes)
      : texts_(read_texts(config, tokenizer, path, {config.data.columns, &notes})) {
    if (texts_->num_truncated() == 0) return;
    notes.push_back(fmt::format("{}: texts of {} of {} {}s were truncated", path,
                                texts_->num_truncated(), size(), texts_->unit()));
  }

  int64_t size() const override { return texts_->size(); }

  std::string identity() const override {
    return fmt::format("{} {}s, {}", size(), texts_->unit(),
                       sampled_checksum(MappedFile(texts_->path())));
  }

  std::shared_ptr<const Dataset> samples(Range range, const SampleUse& /*use*/) const override {
    return std::make_shared<const TextDataset>(texts_, range);
  }

 private:
  std::shared_ptr<const TextSamples> texts_;
};

/// A prepared dataset whose texts are corrupted.
class SpanCorruptionSource final : public TokenSource {
 public:
  SpanCorruptionSource(const RunConfig& config, const std::shared_ptr<const Tokenizer>& tokenizer,
                       const std::string& path, std::vector<std::string>& notes)
      : TokenSource(config, tokenizer, path, tokenizer->vocab_size(), notes),
        source_length_(traits_of(config.model).source_length),
        options_(config.span_corruption) {
    require(!config.data.truncate,
            "data.truncate is set, but {} is a prepared dataset, which is cut into texts that fit: "
            "leave it out",
            path);
    require(config.model.vocab_size >= tokenizer->vocab_size() + options_.sentinels,
            "model.vocab_size is {}, but the tokenizer has {} tokens and span_corruption.sentinels "
            "is {}: choose a vocabulary of {} or more, or fewer sentinels",
            config.model.vocab_size, tokenizer->vocab_size(), options_.sentinels,
            tokenizer->vocab_size() + options_.sentinels);
  }

  std::shared_ptr<const Dataset> samples(Range range, const SampleUse& use) const override {
    return std::make_shared<const SpanCorruptionDataset>(
        tokens_, range, source_length_, seq_length_, sequence_ends(*tokenizer_),
        tokenizer_->end_of_document().has_value(), narrow<int32_t>(tokenizer_->vocab_size()),
        options_, use.seed);
  }

 private:
  int64_t source_length_;
  SpanCorruptionOptions options_;
};

/// Images with a class each.
class ImageSource final : public SampleSource {
 public:
  ImageSource(const RunConfig& config, const std::string& path)
      : path_(path),
        images_(open_images(path)),
        encoder_(config.model),
        augmentation_(config.augmentation) {
    check_image_format(config.model, *images_, path);
    check_classes(config);
  }

  int64_t size() const override { return images_->size(); }
  std::string identity() const override { return images_->identity(); }

  std::shared_ptr<const Dataset> samples(Range range, const SampleUse& use) const override {
    return std::make_shared<const ImageDataset>(
        images_, path_, encoder_, range, use.training ? augmentation_ : AugmentationOptions{},
        use.seed);
  }

 private:
  void check_classes(const RunConfig& config) const {
    const std::vector<std::string>& found = images_->class_names();
    const std::vector<std::string> names = names_of_labels(config.data.labels);
    require(found.empty() || names.empty() || found == names,
            "{} has the classes {}, but data.labels is {}: they must be the same, in this order",
            path_, fmt::join(found, ","), fmt::join(names, ","));
    for (int64_t i = 0; i < images_->size(); ++i) {
      require(images_->label(i) < config.model.num_labels,
              "{}: the label of image {} is {}, but model.num_labels is {}: it must be 0 to {}",
              path_, i, images_->label(i), config.model.num_labels, config.model.num_labels - 1);
    }
  }

  std::string path_;
  std::shared_ptr<const ImageSet> images_;
  ImageEncoder encoder_;
  AugmentationOptions augmentation_;
};

}  // namespace

std::optional<std::string> packed_examples(const RunConfig& config) {
  const std::vector<DataBlend::Part>& parts = config.data.train.parts;
  const auto found = std::ranges::find_if(parts, has_columns, &DataBlend::Part::path);
  const bool is_causal = traits_of(config.model).objective == Objective::causal_lm;
  if (!is_causal || found == parts.end()) return std::nullopt;
  return found->path;
}

Packing packing_of(const RunConfig& config) {
  if (!config.automatic.contains("data.packing")) return config.data.packing;
  return packed_examples(config) ? Packing::documents : Packing::concatenate;
}

int64_t num_sentinels(const RunConfig& config) {
  const auto has_prepared = [](const DataBlend& data) {
    return !std::ranges::all_of(data.parts, has_columns, &DataBlend::Part::path);
  };
  const DataSection& data = config.data;
  const bool is_corrupted = traits_of(config.model).objective == Objective::seq2seq &&
                            (has_prepared(data.train) || (data.eval && has_prepared(*data.eval)));
  return is_corrupted ? config.span_corruption.sentinels : 0;
}

std::unique_ptr<const SampleSource> open_source(const RunConfig& config,
                                                std::shared_ptr<const Tokenizer> tokenizer,
                                                const std::string& path,
                                                std::vector<std::string>& notes) {
  require(config.data.columns.empty() ||
              (!config.model.has_images() &&
               any_text_file(config.data, [](const std::string&) { return true; })),
          "data.columns is set, but {} has no columns with names: leave it out", path);
  if (config.model.has_images()) return std::make_unique<const ImageSource>(config, path);
  switch (traits_of(config.model).objective) {
    case Objective::causal_lm:
      if (has_columns(path)) {
        return std::make_unique<const SftSource>(config, *tokenizer, path, notes);
      }
      return std::make_unique<const GptSource>(config, std::move(tokenizer), path, notes);
    case Objective::masked_lm:
      return std::make_unique<const BertSource>(config, tokenizer, path, notes);
    case Objective::classification:
    case Objective::token_classification:
    case Objective::embedding:
      return std::make_unique<const TextSource>(config, *tokenizer, path, notes);
    case Objective::seq2seq:
      if (has_columns(path)) {
        return std::make_unique<const TextSource>(config, *tokenizer, path, notes);
      }
      return std::make_unique<const SpanCorruptionSource>(config, tokenizer, path, notes);
  }
  fail("{}: there is no data for this objective", path);
}

}  // namespace tessera
