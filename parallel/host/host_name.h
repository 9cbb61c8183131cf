#pragma once

#include <string>

namespace tessera {

/// The name of the host that this process runs on, by which ranks find out who shares one. Throws
/// if the host does not tell.
std::string host_name();

}  // namespace tessera
