#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launch/cli/support/loaded_model.h"
#include "launch/tools/predict/file_prediction.h"

namespace tessera {

/// --input, --output, --columns, --micro-batch and --tensor of commands that predict for all texts
/// of a file instead of one text.
struct FileOptions {
  std::string input, output;         ///< "" without them
  std::vector<std::string> columns;  ///< NAME=COLUMN
  bool overwrite = false;
  int64_t micro_batch = 8;
  int64_t tensor = 1;

  bool given() const { return !input.empty(); }
  /// The number of texts that a model is asked about at once.
  int64_t rows() const { return given() ? micro_batch : 1; }
  /// The ranks of a replica for load_model(): all of them for one text.
  std::optional<int64_t> tensor_ranks() const {
    return given() ? std::optional(tensor) : std::nullopt;
  }
};

/// `text` is the option for one text, which excludes these. `options` must live until the command
/// line has been parsed.
void add_file_options(CLI::App& command, FileOptions& options, const std::string& text);

/// Whether --ids was given. Throws CLI::RequiredError unless exactly one source of texts was given:
/// `text`, --ids or --input.
bool has_ids_or_file(const CLI::App& command, const FileOptions& options, const std::string& text);

/// Opens the prediction with `open` on each rank, checks that all ranks have the same input, and
/// writes the output; see predict_file(). Collective.
using OpenPrediction =
    std::function<std::unique_ptr<const FilePrediction>(const FilePredictionOptions& options)>;
void predict_for_file(const LoadedModel& loaded, const FileOptions& options,
                      FilePredictionOptions how, const OpenPrediction& open, Communicator& world);

}  // namespace tessera
