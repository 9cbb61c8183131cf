#include "launch/cli/asked_model.h"

#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/find.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_threads.h"

namespace tessera {

AskedModel open_asked_model(const std::string& checkpoint, const DeviceOptions& devices,
                            Communicator& world) {
  AskedModel asked;
  asked.path = resolve_checkpoint(checkpoint, world);
  apply_host_threads(world);
  asked.devices = devices.open(world);
  all_or_none(world, [&] {
    Checkpoint opened = Checkpoint::open(asked.path);
    asked.extra = opened.manifest().extra;
    asked.tokenizer = tokenizer_of(opened);
    asked.model = std::make_unique<TextModel>(opened, *asked.devices.world, asked.devices.device);
  });
  return asked;
}

}  // namespace tessera
