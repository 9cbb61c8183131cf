#pragma once

namespace tessera {

/// Whether the calling thread's ops may only use algorithms that give the same bits each time. On
/// at first. CPU ops and Tessera's own kernels are always deterministic.
bool deterministic_algorithms();
void use_deterministic_algorithms(bool on);

/// Whether the calling thread's attention may leave dropout to cuDNN, whose random bits are not
/// those of core/random.h. Off at first.
bool cudnn_dropout_allowed();
void allow_cudnn_dropout(bool on);

}  // namespace tessera
