#include "launch/tools/predict/file_prediction.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"
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

void predict_file(const FilePrediction& prediction, TextModel& model, const std::string& output,
                  const PredictionRanks& ranks) {
  Communicator& world = ranks.world;
  Communicator& dp = ranks.dp;
  std::optional<StagedFile> file;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    create_folder_of(output);
    file.emplace(output);
    file->write(prediction.header());
  });
  const int64_t size = prediction.size(), round = dp.size() * model.rows();
  for (int64_t first = 0; first < size; first += round) {
    const int64_t begin = std::min(first + dp.rank() * model.rows(), size);
    const Range texts = {begin, std::min(begin + model.rows(), size)};
    std::string lines;
    // The ranks of a replica compute alike.
    all_or_none(world, [&] {
      if (!texts.empty()) lines = prediction.lines(model, texts);
    });
    const std::vector<std::string> all = all_gather_strings(dp, lines);
    all_or_none(world, [&] {
      if (!file) return;
      for (const std::string& part : all) file->write(part);
    });
  }
  all_or_none(world, [&] {
    if (!file) return;
    file->close();
    file->publish();
  });
}

}  // namespace tessera
