#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launch/cli/support/device_options.h"
#include "launch/config/chat_form.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/predict/text_model.h"
#include "parallel/process_grid.h"

namespace tessera {

/// The common state of commands that query a trained model: the checkpoint's model, on all ranks,
/// and its tokenizer.
struct LoadedModel {
  OpenedDevices devices;
  std::optional<ParallelGroups> groups;  ///< if data ranks share the texts
  std::filesystem::path path;            ///< of the step's folder
  Json extra;                            ///< extra data that the run saved
  std::shared_ptr<const ChatForm> chat;  ///< what surrounds its messages, if it learned from any
  std::unique_ptr<TextModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
};

/// Throws if a model without a tokenizer is asked about texts, which `option` names: "--text".
/// `path` is that of the checkpoint.
void require_tokenizer(const Tokenizer& tokenizer, std::string_view option,
                       const std::filesystem::path& path);

/// Opens the checkpoint that a user's path stands for, for up to `rows` texts at once, with its
/// averaged weights if `ema`. Its heads are split over all ranks, or over replicas of `tensor`
/// ranks. Throws on all ranks or none. Collective.
LoadedModel load_model(const std::string& checkpoint, bool ema, const DeviceOptions& devices,
                       Communicator& world, int64_t rows = 1,
                       std::optional<int64_t> tensor = std::nullopt);

}  // namespace tessera
