#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tessera {

/// NCCL's report of a failed call.
struct NcclFailure {
  std::string_view operation;   ///< "all_reduce of fp32 (3, 4) on cuda:0"
  std::string_view code;        ///< NCCL's text for the result: "unhandled system error ..."
  std::string_view last_error;  ///< ncclGetLastError's text, with call and host, or ""
  int rank = 0;
  int size = 1;
};

/// The message of the Error that is thrown:
///
///     all_reduce of fp32 (1024) on cuda:0: NCCL failed on rank 2 of 4: remote process exited or
///     there was a network error (socketProgress: Connection closed by remote peer node3). Set
///     NCCL_DEBUG=WARN in the environment for details
inline std::string nccl_error_text(const NcclFailure& failure) {
  // Some of NCCL's texts end with a full stop or a newline.
  std::string_view last = failure.last_error;
  while (!last.empty() && (last.back() == '\n' || last.back() == '.' || last.back() == ' ')) {
    last.remove_suffix(1);
  }
  const std::string detail = last.empty() ? "" : fmt::format(" ({})", last);
  return fmt::format(
      "{}: NCCL failed on rank {} of {}: {}{}. Set NCCL_DEBUG=WARN in the environment for details",
      failure.operation, failure.rank, failure.size, failure.code, detail);
}

}  // namespace tessera
