#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launch/checkpoint/run_state.h"
#include "launch/cli/support/device_options.h"
#include "launch/config/chat_form.h"
#include "launch/devices/opened_ranks.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// The common state of commands that query a trained model: the checkpoint's model, on all ranks,
/// and its tokenizer.
struct LoadedModel {
  std::shared_ptr<const OpenedRanks> ranks;
  std::filesystem::path path;            ///< of the step's folder
  RunState run;                          ///< what else the checkpoint keeps
  std::shared_ptr<const ChatForm> chat;  ///< what surrounds its messages, if it learned from any
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<TextModel> model;
};

/// Throws if a model without a tokenizer is asked about texts, which `option` names: "--text".
/// `path` is that of the checkpoint.
void require_tokenizer(const Tokenizer& tokenizer, std::string_view option,
                       const std::filesystem::path& path);

/// Opens the checkpoint in a step's folder for up to `rows` texts at once, or its averaged weights.
/// Its heads are split over all ranks, or over replicas of `tensor` ranks. A ServedWorld keeps it,
/// and the next call with the same arguments returns it unless the folder has other weights by
/// then. Throws on all ranks or none. Collective.
LoadedModel load_model(const std::filesystem::path& checkpoint, bool ema,
                       const DeviceOptions& devices, Communicator& world, int64_t rows = 1,
                       std::optional<int64_t> tensor = std::nullopt);

}  // namespace tessera
