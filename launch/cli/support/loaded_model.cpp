#include "launch/cli/support/loaded_model.h"

#include "core/error.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_threads.h"

namespace tessera {

void require_tokenizer(const Tokenizer& tokenizer, std::string_view option,
                       const std::filesystem::path& path) {
  require(
      !is_none(tokenizer),
      "{} is a text, but the model of {} has no tokenizer (data.tokenizer: none): pass ids with "
      "--ids, as in --ids \"1 2 3\"",
      option, path.string());
}

LoadedModel load_model(const std::string& checkpoint, const DeviceOptions& devices,
                       Communicator& world, int64_t rows) {
  LoadedModel loaded;
  loaded.path = resolve_checkpoint(checkpoint, world);
  apply_host_threads(world);
  loaded.devices = devices.open(world);
  all_or_none(world, [&] {
    Checkpoint opened = Checkpoint::open(loaded.path);
    loaded.extra = opened.manifest().extra;
    loaded.tokenizer = tokenizer_of(opened);
    loaded.model =
        std::make_unique<TextModel>(opened, *loaded.devices.world, loaded.devices.device, rows);
  });
  return loaded;
}

}  // namespace tessera
