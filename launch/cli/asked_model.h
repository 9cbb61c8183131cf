#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "launch/cli/device_options.h"
#include "launch/tokenizers/tokenizer.h"
#include "launch/tools/predict/text_model.h"

namespace tessera {

/// What the commands that ask a trained model begin with: the model of a checkpoint, on all ranks,
/// and its tokenizer.
struct AskedModel {
  OpenedDevices devices;
  std::filesystem::path path;  ///< of the step's folder
  Json extra;                  ///< what the run wanted to find again
  std::unique_ptr<TextModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
};

/// Opens the checkpoint that a user's path means. Throws on all ranks or none. Collective.
AskedModel open_asked_model(const std::string& checkpoint, const DeviceOptions& devices,
                            Communicator& world);

}  // namespace tessera
