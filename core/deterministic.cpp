#include "core/deterministic.h"

namespace tessera {
namespace {

thread_local bool deterministic = true;
thread_local bool cudnn_dropout = false;

}  // namespace

bool deterministic_algorithms() { return deterministic; }
void use_deterministic_algorithms(bool on) { deterministic = on; }

bool cudnn_dropout_allowed() { return cudnn_dropout; }
void allow_cudnn_dropout(bool on) { cudnn_dropout = on; }

}  // namespace tessera
