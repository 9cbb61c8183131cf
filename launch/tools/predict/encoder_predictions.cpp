#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "launch/data/datasets/labeled_lines.h"
#include "launch/data/datasets/labeled_words.h"
#include "launch/data/datasets/text_encoders.h"
#include "launch/data/images/image_dataset.h"
#include "launch/tools/predict/file_prediction.h"
#include "launch/tools/predict/predict.h"
#include "launch/tools/predict/text_sample.h"

namespace tessera {
namespace {

std::vector<Sample> chosen(const std::vector<Sample>& all, std::span<const int64_t> numbers) {
  std::vector<Sample> some;
  for (const int64_t number : numbers) some.push_back(all[static_cast<size_t>(number)]);
  return some;
}

/// Calls `visit` for each text of the input after adding it.
void read_texts(const FilePredictionOptions& options, FilePrediction& prediction,
                const std::function<void(const LabeledLine&, const std::string& where)>& visit) {
  const auto add = [&](const LabeledLine& line) {
    prediction.inputs.push_back({{"line", line.number}, {"text", line.text}});
    if (line.text_pair) prediction.inputs.back()["text_pair"] = *line.text_pair;
    if (line.text_pair) prediction.input_columns = {"line", "text", "text_pair"};
    visit(line, fmt::format("{}:{}", options.input, line.number));
  };
  for_each_unlabeled_line(options.input, add, {options.columns});
}

/// Names, or numbers as text.
std::string name_of(const std::vector<std::string>& labels, size_t label) {
  return label < labels.size() ? labels[label] : std::to_string(label);
}

/// A number if labels have no names, as in labeled texts.
Json json_label(const std::vector<std::string>& labels, size_t label) {
  return label < labels.size() ? Json(labels[label]) : Json(label);
}

std::vector<std::string> label_columns(ProblemType type) {
  switch (type) {
    case ProblemType::single_label_classification:
      return {"label", "probability"};
    case ProblemType::multi_label_classification:
      return {"labels", "probabilities"};
    case ProblemType::regression:
      return {"score"};
  }
  return {};
}

Prediction prediction_of(const std::vector<double>& values, ProblemType type,
                         const std::vector<std::string>& labels) {
  if (type == ProblemType::regression) {
    return {{{"score", values[0]}}, {{fmt::format("{:.9g}", values[0])}}};
  }
  Json probabilities = Json::object();
  for (size_t i = 0; i < values.size(); ++i) probabilities[name_of(labels, i)] = values[i];
  if (type == ProblemType::single_label_classification) {
    const auto likeliest = static_cast<size_t>(std::ranges::max_element(values) - values.begin());
    return {{{"label", json_label(labels, likeliest)}, {"probabilities", probabilities}},
            {{name_of(labels, likeliest), fmt::format("{:.6g}", values[likeliest])}}};
  }
  Json present = Json::array();
  std::vector<std::string> names, shares;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] <= 0.5) continue;
    present.push_back(json_label(labels, i));
    names.push_back(name_of(labels, i));
    shares.push_back(fmt::format("{:.6g}", values[i]));
  }
  return {{{"labels", present}, {"probabilities", probabilities}},
          {{fmt::format("{}", fmt::join(names, "|")), fmt::format("{}", fmt::join(shares, "|"))}}};
}

FilePrediction::Predict predict_labels_of(
    const ModelConfig& config, const std::vector<std::string>& labels,
    const std::function<std::vector<Sample>(std::span<const int64_t>)>& samples) {
  return [=, type = config.problem_type](TextModel& model, std::span<const int64_t> numbers) {
    std::vector<Prediction> found;
    for (const std::vector<double>& values : predict_labels(model, samples(numbers))) {
      found.push_back(prediction_of(values, type, labels));
    }
    return found;
  };
}

Prediction prediction_of(const MaskedText& text,
                         const std::vector<std::vector<Candidate>>& candidates,
                         const Tokenizer& tokenizer) {
  Prediction found;
  std::vector<int32_t> filled = text.sample.tokens;
  Json masks = Json::array();
  for (size_t mask = 0; mask < candidates.size(); ++mask) {
    filled[static_cast<size_t>(text.places[mask])] = candidates[mask].front().token;
    Json of_mask = Json::array();
    for (const Candidate& candidate : candidates[mask]) {
      const std::string token = tokenizer.token_text(candidate.token);
      of_mask.push_back({{"token", token}, {"probability", candidate.probability}});
      found.rows.push_back(
          {fmt::format("{}", mask + 1), token, fmt::format("{:.6g}", candidate.probability)});
    }
    masks.push_back(of_mask);
  }
  found.object = {{"filled", tokenizer.decode(filled)}, {"masks", masks}};
  return found;
}

}  // namespace

std::unique_ptr<const FilePrediction> label_prediction(const ModelConfig& config,
                                                       const Tokenizer& tokenizer,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options) {
  auto prediction = std::make_unique<FilePrediction>(
      FilePrediction{options.format, label_columns(config.problem_type)});
  const ClassificationEncoder encoder([&](std::string_view text) { return tokenizer.encode(text); },
                                      tokenizer.traits(), config.seq_length, options.truncate);
  const auto texts = std::make_shared<std::vector<Sample>>();
  read_texts(options, *prediction, [&](const LabeledLine& line, const std::string& where) {
    require(!line.text_pair || config.token_types != 1,
            "{}: a pair needs a model with 2 token types, but the model has 1", where);
    encoder.encode(line.text, line.text_pair, where, texts->emplace_back());
  });
  prediction->predict = predict_labels_of(
      config, labels,
      [texts](std::span<const int64_t> numbers) { return chosen(*texts, numbers); });
  return prediction;
}

std::unique_ptr<const FilePrediction> image_prediction(const ModelConfig& config,
                                                       const std::vector<std::string>& labels,
                                                       const FilePredictionOptions& options) {
  auto prediction = std::make_unique<FilePrediction>(
      FilePrediction{options.format, label_columns(config.problem_type)});
  prediction->input_columns = {"image"};
  const std::shared_ptr<const ImageSet> images = open_images(options.input);
  check_image_format(config, *images, options.input);
  images->check();
  for (int64_t i = 0; i < images->size(); ++i) {
    const std::string file = images->file(i);
    prediction->inputs.push_back({{"image", file.empty() ? Json(i) : Json(file)}});
  }
  prediction->predict = predict_labels_of(
      config, labels, [images, encoder = ImageEncoder(config)](std::span<const int64_t> numbers) {
        std::vector<Sample> samples(numbers.size());
        for (size_t i = 0; i < numbers.size(); ++i) {
          encoder.encode(*images, numbers[i], samples[i]);
        }
        return samples;
      });
  return prediction;
}

std::unique_ptr<const FilePrediction> word_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& labels,
                                                      const FilePredictionOptions& options) {
  require(!options.truncate,
          "--truncate does not apply to words, each of which gets a label: split long sentences");
  auto prediction =
      std::make_unique<FilePrediction>(FilePrediction{options.format, {"word", "label"}});
  prediction->is_conll = true;
  prediction->input_columns = {"line"};
  const WordEncoder encoder(tokenizer, config.seq_length, /*truncate=*/false);
  const auto texts = std::make_shared<std::vector<Sample>>();
  const auto words = std::make_shared<std::vector<std::vector<std::string>>>();
  const auto add = [&](const LabeledSentence& sentence) {
    prediction->inputs.push_back({{"line", sentence.number}});
    const std::string where = fmt::format("{}:{}", options.input, sentence.number);
    encoder.encode(sentence.words, {}, where, texts->emplace_back());
    words->emplace_back(sentence.words.begin(), sentence.words.end());
  };
  for_each_sentence(options.input, add, {options.columns});
  prediction->predict = [texts, words, labels](TextModel& model, std::span<const int64_t> numbers) {
    std::vector<Prediction> found;
    for (const std::vector<int32_t>& tags : predict_word_labels(model, chosen(*texts, numbers))) {
      const auto& tokens = (*words)[static_cast<size_t>(numbers[found.size()])];
      Prediction& of_text = found.emplace_back();
      of_text.object = {{"tokens", tokens}, {"tags", Json::array()}};
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto tag = static_cast<size_t>(tags[i]);
        of_text.object["tags"].push_back(json_label(labels, tag));
        of_text.rows.push_back({tokens[i], name_of(labels, tag)});
      }
    }
    return found;
  };
  return prediction;
}

std::unique_ptr<const FilePrediction> mask_prediction(const ModelConfig& config,
                                                      const Tokenizer& tokenizer,
                                                      const FilePredictionOptions& options) {
  auto prediction = std::make_unique<FilePrediction>(
      FilePrediction{options.format, {"mask", "token", "probability"}});
  const auto texts = std::make_shared<std::vector<MaskedText>>();
  read_texts(options, *prediction, [&](const LabeledLine& line, const std::string& where) {
    try {
      require(!line.text_pair, "has a text_pair, but masks are filled in single texts");
      Sample sample = sample_of_text(tokenizer, config, std::string(line.text));
      require(std::ssize(sample.tokens) <= config.seq_length,
              "has {} tokens, including special tokens, but the model supports at most {} "
              "(model.seq_length): shorten it",
              sample.tokens.size(), config.seq_length);
      std::vector<int32_t> places = masked_places(sample, tokenizer, quote(line.text));
      texts->push_back({std::move(sample), std::move(places)});
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
  });
  prediction->predict = [texts, &tokenizer, top = options.top](TextModel& model,
                                                               std::span<const int64_t> numbers) {
    std::vector<MaskedText> asked;
    for (const int64_t number : numbers) asked.push_back((*texts)[static_cast<size_t>(number)]);
    const auto candidates = fill_masks(model, asked, top, tokenizer.vocab_size());
    std::vector<Prediction> found;
    for (size_t i = 0; i < asked.size(); ++i) {
      found.push_back(prediction_of(asked[i], candidates[i], tokenizer));
    }
    return found;
  };
  return prediction;
}

std::unique_ptr<const FilePrediction> embedding_prediction(const ModelConfig& config,
                                                           const Tokenizer& tokenizer,
                                                           const FilePredictionOptions& options) {
  auto prediction = std::make_unique<FilePrediction>(FilePrediction{options.format, {}});
  prediction->width = config.hidden_size;
  const ClassificationEncoder encoder([&](std::string_view text) { return tokenizer.encode(text); },
                                      tokenizer.traits(), config.seq_length, options.truncate);
  const auto texts = std::make_shared<std::vector<Sample>>();
  read_texts(options, *prediction, [&](const LabeledLine& line, const std::string& where) {
    require(!line.text_pair,
            "{}: there is a text_pair, but an embedding is of one text: leave it out", where);
    encoder.encode(line.text, {}, where, texts->emplace_back());
  });
  prediction->predict = [texts, width = static_cast<size_t>(config.hidden_size)](
                            TextModel& model, std::span<const int64_t> numbers) {
    const auto all = embed_texts(model, chosen(*texts, numbers)).span<float>();
    std::vector<Prediction> found(numbers.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const auto of_text = all.subspan(i * width, width);
      found[i].vector.assign(of_text.begin(), of_text.end());
    }
    return found;
  };
  return prediction;
}

}  // namespace tessera
