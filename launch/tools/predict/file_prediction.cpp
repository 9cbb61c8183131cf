#include "launch/tools/predict/file_prediction.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"
#include "launch/support/text/json.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

PredictionFormat prediction_format(const std::string& path, bool vectors) {
  if (path.ends_with(".jsonl")) return PredictionFormat::jsonl;
  if (vectors) {
    require(path.ends_with(".npy"), "--output {}: embeddings are written to .jsonl or .npy files",
            path);
    return PredictionFormat::npy;
  }
  require(path.ends_with(".tsv"), "--output {}: predictions are written to .tsv or .jsonl files",
          path);
  return PredictionFormat::tsv;
}

std::string text_header(PredictionFormat format, std::string_view name) {
  return format == PredictionFormat::tsv ? fmt::format("{}\n", name) : "";
}

std::string text_line(PredictionFormat format, std::string_view name, std::string text) {
  if (format == PredictionFormat::jsonl) {
    return Json{{std::string(name), text}}.dump(-1, ' ', false, Json::error_handler_t::replace) +
           "\n";
  }
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text + "\n";
}

std::vector<Range> FilePrediction::batches(int64_t rows) const {
  std::vector<Range> batches;
  for (int64_t begin = 0; begin < size(); begin += rows) {
    batches.push_back({begin, std::min(begin + rows, size())});
  }
  return batches;
}

namespace {

/// Writes the lines of batches to a file in the order of the texts.
class OrderedLines {
 public:
  OrderedLines(StagedFile& file, std::span<const int64_t> order)
      : file_(file), order_(order), held_(order.size()) {}

  /// Adds the lines of the next batch.
  void add(std::string_view lines) {
    if (order_.empty()) file_.write(lines);
    while (!order_.empty() && !lines.empty()) {
      const size_t end = lines.find('\n') + 1;
      held_[static_cast<size_t>(order_[added_++])] = lines.substr(0, end);
      lines.remove_prefix(end);
    }
  }

  /// Writes what the order has held back.
  void finish() {
    for (const std::string& line : held_) file_.write(line);
  }

 private:
  StagedFile& file_;
  std::span<const int64_t> order_;
  std::vector<std::string> held_;  // by text
  size_t added_ = 0;
};

}  // namespace

void predict_file(const FilePrediction& prediction, TextModel& model, const std::string& output,
                  const PredictionRanks& ranks, Replace replace) {
  Communicator& world = ranks.world;
  Communicator& dp = ranks.dp;
  std::optional<StagedFile> file;
  std::optional<OrderedLines> ordered;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    create_folder_of(output);
    file.emplace(output, replace);
    file->write(prediction.header());
    ordered.emplace(*file, prediction.order());
  });
  const std::vector<Range> batches = prediction.batches(model.rows());
  const auto round = static_cast<size_t>(dp.size()), own = static_cast<size_t>(dp.rank());
  for (size_t first = 0; first < batches.size(); first += round) {
    std::string lines;
    // The ranks of a replica compute alike.
    all_or_none(world, [&] {
      if (first + own < batches.size()) lines = prediction.lines(model, batches[first + own]);
    });
    const std::vector<std::string> all = all_gather_strings(dp, lines);
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
