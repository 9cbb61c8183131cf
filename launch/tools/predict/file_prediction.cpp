#include "launch/tools/predict/file_prediction.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

PredictionFormat prediction_format(const std::string& path) {
  if (path.ends_with(".jsonl")) return PredictionFormat::jsonl;
  require(path.ends_with(".tsv"), "--output {}: predictions are written to .tsv or .jsonl files",
          path);
  return PredictionFormat::tsv;
}

void predict_file(const FilePrediction& prediction, TextModel& model, const std::string& output,
                  Communicator& world) {
  std::optional<StagedFile> file;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    create_folder_of(output);
    file.emplace(output);
    file->write(prediction.header());
  });
  for (int64_t begin = 0; begin < prediction.size(); begin += model.rows()) {
    const Range texts = {begin, std::min(begin + model.rows(), prediction.size())};
    // All ranks compute alike. Writing may fail on rank 0 alone, but comes last.
    all_alike(world, [&] {
      const std::string lines = prediction.lines(model, texts);
      if (file) file->write(lines);
    });
  }
  all_or_none(world, [&] {
    if (!file) return;
    file->close();
    file->publish();
  });
}

}  // namespace tessera
