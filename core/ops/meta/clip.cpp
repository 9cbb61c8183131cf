#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void clip_scale(int64_t /*step*/, const ClipRule& rule, const Tensor& squares, const Tensor& losses,
                const NormHistory& history, const StepRecord& record, Tensor grad_scale) {
  const bool seeks_spikes = rule.spike_factor > 0.0;
  log_work({.flops = 2.0,
            .bytes_read = bytes_of(squares, losses, record.skipped_steps()) +
                          (seeks_spikes ? bytes_of(history.values) : 0.0),
            .bytes_written = bytes_of(record.values, grad_scale)});
}

}  // namespace tessera::meta
