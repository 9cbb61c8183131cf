#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// `inner` as a communicator of host tensors whose every collective runs on copies in the memory of
/// `gpu`, which the host can not touch. So the cases, which look at elements, hold for the GPU
/// tensors of any communicator.
std::unique_ptr<Communicator> make_device_mirror(std::unique_ptr<Communicator> inner,
                                                 Device gpu = {DeviceType::cuda, 0});

}  // namespace tessera
