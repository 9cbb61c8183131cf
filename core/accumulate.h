#pragma once

namespace tessera {

/// Whether an operation overwrites its output or adds to it.
enum class Accumulate : bool { no, yes };

}  // namespace tessera
