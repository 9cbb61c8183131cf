#include <algorithm>

#include "core/ops/cuda/workspace_sizes.h"
#include "core/ops/device_ops.h"
#include "core/ops/meta/log_work.h"
#include "core/ops/meta/workspace_log.h"

namespace tessera::meta {
namespace {

/// The rows of a table that ids choose: the ids are taken to differ while there are rows.
double chosen_bytes(const Tensor& ids, const Tensor& table, Range local_rows) {
  return bytes_of_rows(table, std::min(ids.numel(), local_rows.size()));
}

}  // namespace

void embedding_forward(const Tensor& ids, const Tensor& table, Range local_rows, Tensor out) {
  log_work({.bytes_read = bytes_of(ids) + chosen_bytes(ids, table, local_rows),
            .bytes_written = bytes_of(out)});
}

void embedding_backward(const Tensor& ids, const Tensor& dout, Range local_rows, Tensor dtable) {
  const double rows = chosen_bytes(ids, dtable, local_rows);
  log_work({.flops = elements_of(dout),
            .bytes_read = bytes_of(ids, dout) + rows,
            .bytes_written = rows});
  log_workspace(cuda::EmbeddingScratch(ids.numel(), dtable.dim(1)).bytes());
}

void embedding_add(const Tensor& x, const Tensor& ids, const Tensor& table, Tensor out) {
  log_work({.flops = elements_of(x),
            .bytes_read = bytes_of(x, ids) + chosen_bytes(ids, table, {0, rows_of(table)}),
            .bytes_written = bytes_of(out)});
}

}  // namespace tessera::meta
