#include "launch/tools/predict/file_prediction.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// The header of version 1.0 of NumPy's format, whose length is a multiple of 64.
std::string npy_header(int64_t rows, int64_t columns) {
  std::string text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr size_t kPrefix = 10;  // magic, version and length
  text.append((64 - (kPrefix + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() % 256);
  header += static_cast<char>(text.size() / 256);
  return header + text;
}

std::string cell_of(PredictionFormat format, std::string text) {
  if (format == PredictionFormat::csv) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
  }
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

/// The cells of what a text is, then those of a prediction.
std::string row_of(const FilePrediction& prediction, const Json& input,
                   const std::vector<std::string>& cells) {
  const PredictionFormat format = prediction.format;
  std::vector<std::string> row;
  if (format != PredictionFormat::tsv || !prediction.is_conll) {
    for (const std::string& column : prediction.input_columns) {
      const Json& value = input.at(column);
      row.push_back(cell_of(format, value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  for (const std::string& cell : cells) row.push_back(cell_of(format, cell));
  return fmt::format("{}\n", fmt::join(row, format == PredictionFormat::csv ? "," : "\t"));
}

std::string header_of(const FilePrediction& prediction) {
  switch (prediction.format) {
    case PredictionFormat::npy:
      return npy_header(prediction.size(), prediction.width);
    case PredictionFormat::jsonl:
      return "";
    case PredictionFormat::tsv:
    case PredictionFormat::csv:
      break;
  }
  if (prediction.is_conll && prediction.format == PredictionFormat::tsv) return "";
  Json names = Json::object();
  for (const std::string& column : prediction.input_columns) names[column] = column;
  return row_of(prediction, names, prediction.columns);
}

std::string text_of(const FilePrediction& prediction, int64_t number, Prediction found) {
  const Json& input = prediction.inputs[static_cast<size_t>(number)];
  std::string text;
  switch (prediction.format) {
    case PredictionFormat::npy:
      return {reinterpret_cast<const char*>(found.vector.data()),
              found.vector.size() * sizeof(float)};
    case PredictionFormat::jsonl:
      for (const auto& [name, value] : input.items()) found.object.emplace(name, value);
      text = found.object.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (!found.vector.empty()) {
        text.pop_back();
        text += fmt::format(",\"embedding\":[{:.9g}]}}", fmt::join(found.vector, ","));
      }
      return text + "\n";
    case PredictionFormat::tsv:
    case PredictionFormat::csv:
      break;
  }
  for (const std::vector<std::string>& cells : found.rows) text += row_of(prediction, input, cells);
  if (prediction.is_conll && prediction.format == PredictionFormat::tsv) text += '\n';
  return text;
}

/// The texts that are computed together, as places in the order.
std::vector<Range> batches_of(const FilePrediction& prediction, int64_t rows) {
  std::vector<Range> batches;
  for (int64_t place = 0; place < prediction.size(); ++place) {
    const bool fits = !batches.empty() && batches.back().size() < rows &&
                      (!prediction.may_share || prediction.may_share(batches.back().begin, place));
    if (!fits) batches.push_back({place, place});
    batches.back().end = place + 1;
  }
  return batches;
}

/// Writes the outputs of texts in the order of the file.
class OrderedOutput {
 public:
  OrderedOutput(StagedFile& file, std::span<const int64_t> order)
      : file_(file), order_(order), held_(order.size()) {}

  /// Adds the outputs of the next batch, each after its length and a space.
  void add(std::string_view outputs) {
    while (!outputs.empty()) {
      size_t length = 0;
      const char* end = std::from_chars(outputs.begin(), outputs.end(), length).ptr + 1;
      const std::string_view output(end, length);
      outputs = {end + length, outputs.end()};
      if (order_.empty()) {
        file_.write(output);
      } else {
        held_[static_cast<size_t>(order_[added_++])] = output;
      }
    }
  }

  /// Writes what the order has held back.
  void finish() {
    for (const std::string& output : held_) file_.write(output);
  }

 private:
  StagedFile& file_;
  std::span<const int64_t> order_;
  std::vector<std::string> held_;  // by text
  size_t added_ = 0;
};

std::string outputs_of(const FilePrediction& prediction, TextModel& model, Range places) {
  std::vector<int64_t> numbers(static_cast<size_t>(places.size()));
  std::iota(numbers.begin(), numbers.end(), places.begin);
  for (int64_t& number : numbers) {
    if (!prediction.order.empty()) number = prediction.order[static_cast<size_t>(number)];
  }
  std::string outputs;
  size_t i = 0;
  for (Prediction& found : prediction.predict(model, numbers)) {
    const std::string text = text_of(prediction, numbers[i++], std::move(found));
    outputs += fmt::format("{} {}", text.size(), text);
  }
  return outputs;
}

}  // namespace

PredictionFormat prediction_format(const std::string& path, bool vectors) {
  if (path.ends_with(".jsonl")) return PredictionFormat::jsonl;
  if (vectors) {
    require(path.ends_with(".npy"), "--output {}: embeddings are written to .jsonl or .npy files",
            path);
    return PredictionFormat::npy;
  }
  require(path.ends_with(".tsv") || path.ends_with(".csv"),
          "--output {}: predictions are written to .tsv, .csv or .jsonl files", path);
  return path.ends_with(".csv") ? PredictionFormat::csv : PredictionFormat::tsv;
}

void predict_file(const FilePrediction& prediction, TextModel& model, const std::string& output,
                  const PredictionRanks& ranks, Replace replace) {
  Communicator& world = ranks.world;
  Communicator& dp = ranks.dp;
  std::optional<StagedFile> file;
  std::optional<OrderedOutput> ordered;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    create_folder_of(output);
    file.emplace(output, replace);
    file->write(header_of(prediction));
    ordered.emplace(*file, prediction.order);
  });
  const std::vector<Range> batches = batches_of(prediction, model.rows());
  const auto round = static_cast<size_t>(dp.size()), own = static_cast<size_t>(dp.rank());
  for (size_t first = 0; first < batches.size(); first += round) {
    std::string outputs;
    // The ranks of a replica compute alike.
    all_or_none(world, [&] {
      if (first + own < batches.size()) {
        outputs = outputs_of(prediction, model, batches[first + own]);
      }
    });
    const std::vector<std::string> all = all_gather_strings(dp, outputs);
    all_or_none(world, [&] {
      if (!ordered) return;
      for (const std::string& part : all) ordered->add(part);
    });
  }
  all_or_none(world, [&] {
    if (!file) return;
    ordered->finish();
    file->close();
    file->publish();
  });
}

}  // namespace tessera
