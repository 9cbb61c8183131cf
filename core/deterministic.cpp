#include "core/deterministic.h"

namespace tessera {
namespace {

thread_local bool deterministic = true;

}  // namespace

bool deterministic_algorithms() { return deterministic; }
void use_deterministic_algorithms(bool on) { deterministic = on; }

}  // namespace tessera
