#pragma once

#include <string>

namespace tessera {

/// The name of this process's host; ranks with equal names share a host. Throws if the system does
/// not report it.
std::string host_name();

}  // namespace tessera
