#include "launch/cli/support/loaded_model.h"

#include <fmt/format.h>

#include "core/checked.h"
#include "core/error.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/format/manifest.h"
#include "launch/cli/support/process.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/mapped_file.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

/// Tells checkpoints in one folder apart, since a manifest has the checksums of all files.
std::string checksum_of_manifest(const std::filesystem::path& checkpoint, Communicator& world) {
  std::string checksum;
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    checksum = checksum_of(MappedFile(checkpoint / kManifestName).bytes());
  });
  return broadcast_string(world, checksum, 0);
}

}  // namespace

void require_tokenizer(const Tokenizer& tokenizer, std::string_view option,
                       const std::filesystem::path& path) {
  require(
      !is_none(tokenizer),
      "{} is a text, but the model of {} has no tokenizer (data.tokenizer: none): pass ids with "
      "--ids, as in --ids \"1 2 3\"",
      option, path.string());
}

LoadedModel load_model(const std::filesystem::path& checkpoint, bool ema,
                       const DeviceOptions& devices, Communicator& world, int64_t rows,
                       std::optional<int64_t> tensor) {
  ServedWorld* const served = ServedWorld::current();
  std::string name;
  if (served != nullptr) {
    name =
        fmt::format("{} {} {} {} {} {} {} {}", checkpoint.string(), ema, rows, tensor.value_or(0),
                    static_cast<int>(devices.device), static_cast<int>(devices.backend),
                    static_cast<int>(devices.precision), checksum_of_manifest(checkpoint, world));
    if (served->kept_name == name) return *static_cast<const LoadedModel*>(served->kept.get());
    served->kept_name = "";
    served->kept = nullptr;  // before the next one needs its memory
  }
  LoadedModel loaded;
  loaded.path = checkpoint;
  const GridShape shape = shape_of_option(tensor.value_or(world.size()), world);
  loaded.ranks = std::make_shared<const OpenedRanks>(devices, shape, world);
  all_or_none(world, [&] {
    Checkpoint opened = Checkpoint::open(loaded.path);
    if (ema) opened.use_average();
    loaded.run = read_run_state(opened.manifest());
    loaded.chat = checkpoint_chat(opened);
    loaded.tokenizer = tokenizer_of(opened);
    loaded.model = std::make_shared<TextModel>(
        opened, *loaded.ranks->groups.tp, loaded.ranks->devices.device, rows, devices.precision);
  });
  if (served != nullptr) {
    served->kept = std::make_shared<const LoadedModel>(loaded);
    served->kept_name = name;
  }
  return loaded;
}

}  // namespace tessera
