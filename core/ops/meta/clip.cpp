#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"

namespace tessera::meta {

void clip_scale(int64_t /*step*/, double /*max_norm*/, int64_t /*max_skipped_steps*/,
                const Tensor& squares, const Tensor& losses, const StepRecord& record,
                Tensor grad_scale) {
  log_work({.flops = 2.0,
            .bytes_read = bytes_of(squares, losses, record.skipped_steps()),
            .bytes_written = bytes_of(record.values, grad_scale)});
}

}  // namespace tessera::meta
