#include "launch/cli/support/loaded_model.h"

#include "core/checked.h"
#include "core/error.h"
#include "launch/checkpoint/checkpoint_chat.h"
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

LoadedModel load_model(const std::string& checkpoint, bool ema, const DeviceOptions& devices,
                       Communicator& world, int64_t rows, std::optional<int64_t> tensor) {
  LoadedModel loaded;
  all_or_none(world, [&] {
    const int64_t ranks = tensor.value_or(1);
    require(world.size() % ranks == 0,
            "--tensor is {}, but {} ranks were started: choose a divisor of their number", ranks,
            world.size());
  });
  loaded.path = resolve_checkpoint(checkpoint, world);
  apply_host_threads(world);
  loaded.devices = devices.open(world);
  if (tensor) {
    loaded.groups.emplace(make_parallel_groups(*loaded.devices.world, narrow<int>(*tensor)));
  }
  Communicator& tp = loaded.groups ? *loaded.groups->tp : *loaded.devices.world;
  all_or_none(world, [&] {
    Checkpoint opened = Checkpoint::open(loaded.path);
    if (ema) opened.use_average();
    loaded.extra = opened.manifest().extra;
    loaded.chat = checkpoint_chat(opened);
    loaded.tokenizer = tokenizer_of(opened);
    loaded.model = std::make_unique<TextModel>(opened, tp, loaded.devices.device, rows);
  });
  return loaded;
}

}  // namespace tessera
