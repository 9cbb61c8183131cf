#include "launch/tools/attention/record_attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "launch/tools/predict/predict.h"
#include "models/architecture.h"

namespace tessera {
namespace {

/// The chosen indices, sorted and unique, or all `count`.
std::vector<int64_t> chosen(std::vector<int64_t> choice, int64_t count, const char* what) {
  if (choice.empty()) {
    choice.resize(static_cast<size_t>(count));
    std::iota(choice.begin(), choice.end(), 0);
  }
  for (const int64_t i : choice) {
    require(i >= 0 && i < count, "--{} is {}, but the model has {}s 0 to {}", what, i, what,
            count - 1);
  }
  std::sort(choice.begin(), choice.end());
  choice.erase(std::unique(choice.begin(), choice.end()), choice.end());
  return choice;
}

/// A group of attentions of a model: what AttentionMaps has, and how to compute it.
struct Group {
  std::string name = {};
  AttentionOf of = AttentionOf::stack;
  size_t queries = 0, keys = 0;  ///< of the texts of the sequence
  ModelConfig config;            ///< num_layers is that of its stack
  bool causal;
};

/// In the order of the report.
std::vector<Group> groups_of(const ModelConfig& config) {
  const ModelTraits traits = traits_of(config);
  if (traits.source_length == 0) return {{.config = config, .causal = traits.causal}};
  constexpr size_t kSource = 0, kTarget = 1;
  ModelConfig decoder = config;
  decoder.num_layers = config.resolved_decoder_layers();
  return {{"encoder", AttentionOf::encoder, kSource, kSource, config, false},
          {"decoder", AttentionOf::stack, kTarget, kTarget, decoder, traits.causal},
          {"cross", AttentionOf::cross, kTarget, kSource, decoder, false}};
}

/// The document number of each token.
std::vector<size_t> documents_of(const std::vector<int32_t>& lengths) {
  std::vector<size_t> documents;
  for (size_t i = 0; i < lengths.size(); ++i) {
    documents.insert(documents.end(), static_cast<size_t>(lengths[i]), i);
  }
  return documents;
}

/// Whether some of the layers have a window and others have none.
bool has_both(const ModelConfig& config) {
  for (int64_t layer = 1; layer < config.num_layers; ++layer) {
    if (config.is_local(layer) != config.is_local(0)) return true;
  }
  return false;
}

/// The cells hidden by the model's mask: other documents and, in self-attention, the future if it
/// is causal, and keys beyond its window in layers that have it.
std::vector<uint8_t> hidden_in(const Group& group, bool is_local,
                               const std::vector<size_t>& queries,
                               const std::vector<size_t>& keys) {
  ModelTraits traits = traits_of(group.config);
  traits.causal = group.causal;
  const bool is_self = group.of != AttentionOf::cross;
  std::vector<uint8_t> hidden;
  for (size_t t = 0; t < queries.size(); ++t) {
    for (size_t s = 0; s < keys.size(); ++s) {
      const bool masked =
          is_self && traits.hides(static_cast<int64_t>(t), static_cast<int64_t>(s), is_local);
      hidden.push_back(masked || queries[t] != keys[s] ? 1 : 0);
    }
  }
  return hidden;
}

std::string mask_in_words(const ModelConfig& config, const std::vector<Sample>& samples) {
  const ModelTraits traits = traits_of(config);
  std::string words = traits.source_length > 0 ? "each token of the source sees all of the source; "
                                                 "each token of the target sees itself, "
                                                 "those before it, and all of the source"
                      : traits.causal ? "causal: each token sees itself and those before it"
                                      : "each token sees all of its text";
  if (traits.attention_prefix > 0) {
    words += fmt::format(", but the first {} see each other", traits.attention_prefix);
  }
  if (traits.attention_window > 0) {
    words += fmt::format("; window{}: none that is {} or more away",
                         has_both(config) ? " of local layers" : "",
                         traits.attention_window * traits.attention_dilation);
    if (traits.attention_dilation > 1) {
      words += fmt::format(" and of the nearer ones only those at multiples of {}",
                           traits.attention_dilation);
    }
    if (traits.global_tokens > 0) {
      words += fmt::format(", except from or to the first {}", traits.global_tokens);
    }
    if (traits.source_length > 0) words += " in its own text";
  }
  if (traits.attention_plane) words += "; the mask of model.attention_mask_file applies, too";
  for (const Sample& sample : samples) {
    if (sample.document_lengths.size() < 2) continue;
    words += fmt::format("; the texts of the row, of {} tokens, do not see each other",
                         fmt::join(sample.document_lengths, " and "));
  }
  return words;
}

AttentionText text_of(std::string name, const std::vector<int32_t>& ids,
                      const Tokenizer& tokenizer) {
  AttentionText text{std::move(name), ids, {}};
  for (const int32_t token : ids) text.tokens.push_back(tokenizer.token_text(token));
  return text;
}

AttentionMaps maps_of(QueriedModel& model, const Sample& sample, const Group& group,
                      const AttentionChoice& choice) {
  AttentionMaps maps{.name = group.name, .queries = group.queries, .keys = group.keys};
  const ModelConfig& config = group.config;
  const bool both = group.of != AttentionOf::cross && has_both(config);
  const auto source = documents_of(sample.source_lengths);
  const auto target = documents_of(sample.document_lengths);
  const auto& queries = group.of == AttentionOf::encoder ? source : target;
  const auto& keys = group.of == AttentionOf::stack ? target : source;
  maps.hidden = hidden_in(group, !both && config.is_local(0), queries, keys);
  if (both) maps.local_hidden = hidden_in(group, true, queries, keys);
  std::vector<int64_t> layers = choice.layers;
  std::erase_if(layers, [&](int64_t layer) { return layer >= config.num_layers; });
  const auto cells = std::ssize(queries) * std::ssize(keys);
  const auto weights = attention_weights_of(model, sample, group.of, layers);  // (H, T, S) each
  for (size_t i = 0; i < weights.size(); ++i) {
    for (const int64_t head : choice.heads) {
      const auto begin = weights[i].begin() + head * cells;
      maps.heads.push_back(
          {layers[i], head, {begin, begin + cells}, both && config.is_local(layers[i])});
    }
  }
  return maps;
}

std::vector<AttentionText> texts_of(const Sample& sample, bool has_source,
                                    const Tokenizer& tokenizer) {
  if (!has_source) return {text_of("", sample.tokens, tokenizer)};
  return {text_of("source", sample.source_tokens, tokenizer),
          text_of("target", sample.tokens, tokenizer)};
}

/// The tokens of an image: "class", and the row and column of each patch.
AttentionText text_of_patches(const ModelConfig& config, const Sample& sample) {
  AttentionText text{.ids = sample.tokens, .tokens = {}};
  if (config.has_class_token()) text.tokens.emplace_back("class");
  const int64_t side = config.image_size / config.patch_size;
  for (int64_t row = 0; row < side; ++row) {
    for (int64_t column = 0; column < side; ++column) {
      text.tokens.push_back(fmt::format("{},{}", row, column));
    }
  }
  return text;
}

AttendedImage image_of(const ModelConfig& config, const Pixels& pixels) {
  AttendedImage image{.size = config.image_size,
                      .patches = config.image_size / config.patch_size,
                      .has_class_token = config.has_class_token(),
                      .colors = {}};
  const auto channels = static_cast<size_t>(pixels.channels);
  const bool is_color = channels >= 3;
  for (size_t i = 0; i < pixels.values.size(); i += channels) {
    for (size_t color = 0; color < 3; ++color) {
      image.colors.push_back(pixels.values[i + (is_color ? color : 0)]);
    }
  }
  return image;
}

std::vector<AttentionMaps> attentions_of(QueriedModel& model, const Sample& sample,
                                         const AttentionChoice& choice) {
  std::vector<AttentionMaps> attentions;
  for (const Group& group : groups_of(model.config())) {
    AttentionMaps maps = maps_of(model, sample, group, choice);
    if (!maps.heads.empty()) attentions.push_back(std::move(maps));
  }
  return attentions;
}

std::string model_in_words(const ModelConfig& config) {
  const ModelTraits traits = traits_of(config);
  const std::string layers = traits.source_length == 0
                                 ? fmt::format("{} layers", config.num_layers)
                                 : fmt::format("{} encoder and {} decoder layers",
                                               config.num_layers, config.resolved_decoder_layers());
  return fmt::format("{} of {} with {} heads, {} wide", traits.name, layers, config.num_heads,
                     config.hidden_size);
}

/// The choice, resolved.
AttentionChoice resolved(const ModelConfig& config, const AttentionChoice& choice) {
  int64_t most_layers = 0;
  for (const Group& group : groups_of(config)) {
    most_layers = std::max(most_layers, group.config.num_layers);
  }
  return {chosen(choice.layers, most_layers, "layer"),
          chosen(choice.heads, config.num_heads, "head")};
}

}  // namespace

AttentionReport record_attention(QueriedModel& model, const Tokenizer& tokenizer,
                                 const std::vector<Sample>& samples,
                                 const AttentionChoice& choice) {
  const ModelConfig& config = model.config();
  const AttentionChoice found = resolved(config, choice);
  const bool has_source = traits_of(config).source_length > 0;
  AttentionReport report;
  report.model = model_in_words(config);
  report.mask = mask_in_words(config, samples);
  for (const Sample& sample : samples) {
    report.sequences.push_back(
        {texts_of(sample, has_source, tokenizer), attentions_of(model, sample, found)});
  }
  return report;
}

AttentionReport record_attention(QueriedModel& model, const std::vector<Pixels>& images,
                                 const AttentionChoice& choice) {
  const ModelConfig& config = model.config();
  const AttentionChoice found = resolved(config, choice);
  const ImageEncoder encoder(config);
  AttentionReport report;
  report.model = model_in_words(config);
  report.mask = "each token sees all of its image";
  for (const Pixels& pixels : images) {
    Sample sample;
    encoder.encode(pixels, sample);
    report.sequences.push_back({{text_of_patches(config, sample)},
                                attentions_of(model, sample, found),
                                image_of(config, pixels)});
  }
  return report;
}

}  // namespace tessera
