#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"

namespace tessera {

/// Wraps `inner`, a communicator of tensors on `gpu`, as a communicator of host tensors: every
/// collective runs on copies in the GPU's memory, which the host cannot access. The cases, which
/// read elements on the host, thereby test GPU tensors of any communicator.
std::unique_ptr<Communicator> make_device_mirror(std::unique_ptr<Communicator> inner,
                                                 Device gpu = {DeviceType::cuda, 0});

}  // namespace tessera
