#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace tessera {

struct ExportOptions {
  std::filesystem::path checkpoint;  ///< a run's folder or a step's
  std::filesystem::path to;          ///< the folder to make
  int64_t max_shard_bytes = 5'000'000'000;
  DType precision = DType::f32;          ///< of the exported weights: fp32 or bf16
  bool overwrite = false;                ///< replace an earlier export
  bool adapter = false;                  ///< only the low-rank adapters (export_adapter())
  std::optional<std::string> base = {};  ///< of the adapters
  bool ema = false;                      ///< the averaged weights
};

struct ExportReport {
  std::filesystem::path checkpoint;  ///< the step's folder
  std::string model_class;           ///< "GPT2LMHeadModel"
  int64_t parameters = 0;
  std::vector<std::string> files;  ///< their names
  std::vector<std::string> notes;  ///< what users of the export should know
};

/// Writes a checkpoint as a folder that `transformers` loads with from_pretrained(): config.json,
/// the weights (export_weights()) and the tokenizer's files (export_tokenizer()). The folder gets
/// its name once it is complete and on disk; an earlier export is replaced atomically. Throws, and
/// leaves existing files alone, if no Hugging Face class expresses the model or anything else
/// fails.
ExportReport export_model(const ExportOptions& options);

}  // namespace tessera
