#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/file_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/data/datasets/text_encoders.h"

namespace tessera {

/// A question to a trained encoder: about one text, or about each of a file.
struct Query {
  CheckpointChoice checkpoint;
  std::string text;
  std::optional<std::string> text_pair = {};
  std::string image;  ///< of a model of images, instead of a text
  bool ids = false;   ///< whether the texts are ids
  bool truncate = false;
  int64_t top = 5;   ///< candidates of each mask
  FileOptions file;  ///< instead of a text
  DeviceOptions devices;

  /// The option that gives the text.
  const char* option() const { return ids ? "--ids" : "--text"; }
};

/// A command that asks an encoder.
struct QueryCommand {
  const char* name;
  const char* description;
  const char* text;      ///< of --text
  bool vectors = false;  ///< whether the answers are vectors
  /// Adds options of its own, after those of all.
  std::function<void(CLI::App& command, Query& query)> add_options = {};
  std::function<std::unique_ptr<const FilePrediction>(const LoadedModel& loaded,
                                                      const FilePredictionOptions& options)>
      open_file = {};
  /// Answers about one text, which all ranks see, and prints the answer if `prints`. Collective.
  std::function<void(const Query& query, const LoadedModel& loaded, bool prints)> answer = {};
};

void add_query_command(CLI::App& app, int& exit_code, const QueryCommand& description);

/// Adds --truncate.
void add_truncate_option(CLI::App& command, Query& query);

/// Whether to truncate texts that are too long: if asked to, or if the run did.
bool truncates(const Query& query, const LoadedModel& loaded);

/// The input that a model sees for the text or pair of a query.
Sample sample_of(const Query& query, const LoadedModel& loaded);

}  // namespace tessera
