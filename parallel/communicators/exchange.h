#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/exit_code.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

// Exchange of short texts between ranks, for start-up, checkpoints and errors. All functions are
// collective and need a communicator that supports host memory.

/// Returns every rank's text in rank order. Texts may differ in length and contain any bytes.
std::vector<std::string> all_gather_strings(Communicator& group, std::string_view text);

/// Like all_gather_strings(), for the root alone; other ranks get nothing.
std::vector<std::string> gather_strings(Communicator& group, std::string_view text, int root);

/// Returns the root's text; the other ranks' texts are ignored.
std::string broadcast_string(Communicator& group, std::string_view text, int root);

/// The error of one rank.
struct RankError {
  std::string message = {};  ///< "" if there is none
  bool of_peer = false;      ///< whether it is a PeerError
  ExitCode code = ExitCode::failed;

  explicit operator bool() const { return !message.empty(); }
};

/// The error of the exception being handled.
RankError handled_error();

/// Throws `error` on this rank alone.
[[noreturn]] void throw_error(const RankError& error);

/// Every rank passes its error. If any rank has one, all throw SharedError with the message and the
/// exit code of the lowest failing rank. It names the failing ranks, unless all ranks have the same
/// message. PeerErrors count only if there is no other error:
///
///     data/train.bin does not exist
///     rank 2 of 4: data/train.bin does not exist
///     ranks 1, 3 of 4, of which the first: data/train.bin does not exist
///     all 4 ranks, of which the first: out of memory: the host refused an allocation of 800 MiB
void raise_on_all(Communicator& group, const RankError& error);

/// Runs `body` on every rank. If it throws on any rank, all throw as in raise_on_all(). `body` may
/// call collectives only as long as, before each, it throws on all ranks or on none.
template <typename Body>
void all_or_none(Communicator& group, Body&& body) {
  RankError error;
  try {
    std::forward<Body>(body)();
  } catch (const std::exception&) {
    error = handled_error();
  }
  raise_on_all(group, error);
}

/// Like all_or_none(), for a body with collectives whose errors occur on all ranks alike. The
/// exception is a DeviceError, which may occur on one rank while others wait in a collective: it
/// propagates immediately and ends all ranks.
template <typename Body>
void all_alike(Communicator& group, Body&& body) {
  RankError error;
  try {
    std::forward<Body>(body)();
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception&) {
    error = handled_error();
  }
  raise_on_all(group, error);
}

}  // namespace tessera
