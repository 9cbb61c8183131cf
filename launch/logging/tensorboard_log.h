#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "launch/metrics/picture.h"
#include "launch/metrics/value_histogram.h"
#include "launch/support/files/appended_file.h"

namespace tessera {

/// A file of TensorBoard's events in RUN/tensorboard/, one per start of a run: records of a length,
/// its CRC-32C, an Event in protobuf's encoding, and its CRC-32C, as TensorFlow's RecordWriter
/// writes them (tensorflow/core/util/event.proto, core/framework/summary.proto).
class TensorBoardLog {
 public:
  /// Starts a file. TensorBoard hides what earlier files say about steps after `steps_done`. Throws
  /// if the folder or the file cannot be made.
  TensorBoardLog(const std::filesystem::path& run_dir, int64_t steps_done);

  /// Markdown, shown under `tag`.
  void text(int64_t step, std::string_view tag, std::string_view markdown);

  void histogram(int64_t step, std::string_view tag, const ValueHistogram& histogram);
  void picture(int64_t step, const Picture& picture);

  /// The numbers of a line of metrics.jsonl: `eval_loss` as eval/loss, `save_seconds` as
  /// checkpoint/save_seconds, `loss` as train/loss; those of a list as eval/f1/0 and so on.
  void numbers(const nlohmann::json& line);

  /// Why the last events could not be written, or nullopt. Tries again.
  std::optional<std::string> problem();

 private:
  AppendedFile file_;
};

}  // namespace tessera
