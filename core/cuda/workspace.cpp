#include "core/cuda/workspace.h"

#include "core/cuda/graph.h"
#include "core/cuda/runtime.h"
#include "core/memory.h"

namespace tessera::cuda {
namespace {

/// Freed when the thread ends; by then it has waited for its stream.
struct Scratch {
  void* data = nullptr;
  size_t bytes = 0;
  int64_t moves = 0;

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { clear(); }

  void clear() {
    if (data != nullptr) release(data);
    data = nullptr;
    bytes = 0;
  }
};

thread_local Scratch scratch;

}  // namespace

void* workspace(size_t bytes) {
  if (bytes > scratch.bytes || scratch.data == nullptr) {
    const size_t grown = workspace_block_bytes(bytes);
    require_not_recording("scratch memory has to grow");
    synchronize();
    scratch.clear();
    const MemoryUse use("the scratch memory of an op");
    scratch.data = allocate(grown);
    scratch.bytes = grown;
    ++scratch.moves;
  }
  return scratch.data;
}

size_t workspace_bytes() { return scratch.bytes; }

void release_workspace() {
  synchronize();
  scratch.clear();
}

int64_t workspace_moves() { return scratch.moves; }

}  // namespace tessera::cuda
