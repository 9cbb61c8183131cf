#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "parallel/communicators/communicator.h"

namespace tessera {

// Short texts between ranks, for start-up, checkpoints and errors. All of these are collective and
// need a communicator that moves host memory.

/// Every rank's text, in the order of ranks. Texts may differ in length and contain any bytes.
std::vector<std::string> all_gather_strings(Communicator& group, std::string_view text);

/// The root's text; that of other ranks is ignored.
std::string broadcast_string(Communicator& group, std::string_view text, int root);

/// An error that every rank of a group throws with the same message, so that one of them can print
/// it and all can end in order.
class SharedError : public Error {
 public:
  using Error::Error;
};

/// What went wrong on one rank.
struct RankError {
  std::string message = {};  ///< "" if nothing did
  bool of_peer = false;      ///< it is a PeerError

  explicit operator bool() const { return !message.empty(); }
};

/// That of the exception that is being handled.
RankError handled_error();

/// Throws it on one rank.
[[noreturn]] void throw_error(const RankError& error);

/// Every rank passes its error. If any has one, all throw SharedError with the message of the
/// lowest failing rank, after saying which ranks failed unless all say the same; PeerErrors count
/// only where there is nothing else:
///
///     data/train.bin does not exist
///     rank 2 of 4: data/train.bin does not exist
///     ranks 1, 3 of 4, of which the first: data/train.bin does not exist
///     all 4 ranks, of which the first: out of memory: the host refused an allocation of 800 MiB
void raise_on_all(Communicator& group, const RankError& error);

/// Runs `body` on every rank. If it throws on any, all throw as in raise_on_all. `body` may call
/// collectives only as long as it throws on all ranks or none before them.
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

/// As all_or_none(), for a body with collectives, in which what is wrong is wrong on all ranks
/// alike. What fails on one rank's device alone is not: then the others may wait in a collective,
/// and the DeviceError goes on at once, to end all ranks.
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
