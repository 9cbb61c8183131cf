#pragma once

#include "core/tensor.h"
#include "core/trace/work_log.h"

namespace tessera::meta {

/// Adds to the calling thread's work log, if it has one.
inline void log_work(const OpWork& work) {
  if (WorkLog* log = WorkLog::current(); log != nullptr) log->add(work);
}

inline double elements_of(const Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// Bytes of all tensors together; those that are undefined have none.
template <typename... Tensors>
double bytes_of(const Tensors&... tensors) {
  return (static_cast<double>(tensors.bytes()) + ...);
}

/// Bytes of `rows` rows of a matrix, or of all if it has fewer: of rows chosen by numbers that a
/// dry run does not know, no row counts twice.
inline double bytes_of_rows(const Tensor& matrix, int64_t rows) {
  const int64_t all = rows_of(matrix);
  const double bytes = bytes_of(matrix);
  return rows < all ? bytes / static_cast<double>(all) * static_cast<double>(rows) : bytes;
}

}  // namespace tessera::meta
