#include "parallel/communicators/exchange.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/memory.h"

namespace tessera {
namespace {

// Characters as a tensor. Casting away const is safe: the collectives used here only read it.
Tensor as_tensor(std::string_view text) {
  return {const_cast<char*>(text.data()), {narrow<int64_t>(text.size())}, DType::u8, kCpu};
}

Tensor as_tensor(std::vector<int64_t>& values) {
  return {values.data(), {narrow<int64_t>(values.size())}, DType::i64, kCpu};
}

}  // namespace

std::vector<std::string> all_gather_strings(Communicator& group, std::string_view text) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> length = {narrow<int64_t>(text.size())};
  std::vector<int64_t> lengths(ranks);
  group.all_gather(as_tensor(length), as_tensor(lengths));

  // All ranks must pass one shape, so texts are padded to the longest.
  const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string padded(text);
  padded.resize(longest);
  std::string all(ranks * longest, '\0');
  group.all_gather(as_tensor(padded), as_tensor(all));

  std::vector<std::string> texts;
  for (size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(all.substr(rank * longest, static_cast<size_t>(lengths[rank])));
  }
  return texts;
}

std::vector<std::string> gather_strings(Communicator& group, std::string_view text, int root) {
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> length = {narrow<int64_t>(text.size())};
  std::vector<int64_t> lengths(ranks);
  group.all_gather(as_tensor(length), as_tensor(lengths));
  std::vector messages = {Communicator::Message::send(as_tensor(text), root)};
  std::vector<std::string> texts(group.rank() == root ? ranks : 0);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    texts[rank].resize(static_cast<size_t>(lengths[rank]));
    messages.push_back(Communicator::Message::recv(as_tensor(texts[rank]), narrow<int>(rank)));
  }
  group.exchange(messages);
  return texts;
}

std::string broadcast_string(Communicator& group, std::string_view text, int root) {
  std::vector<int64_t> length = {narrow<int64_t>(text.size())};
  group.broadcast(as_tensor(length), root);
  std::string result(group.rank() == root ? text : std::string_view());
  result.resize(static_cast<size_t>(length[0]));
  group.broadcast(as_tensor(result), root);
  return result;
}

RankError handled_error() {
  try {
    throw;
  } catch (const std::exception& exception) {
    RankError error = {message_of(exception), dynamic_cast<const PeerError*>(&exception) != nullptr,
                       exit_code_of(exception)};
    if (error.message.empty()) error.message = "an exception without a message";
    return error;
  } catch (...) {
    return {"an exception of an unknown kind"};
  }
}

void throw_error(const RankError& error) {
  if (error.of_peer) throw PeerError(error.message);
  if (error.code != ExitCode::failed) throw CodedError(error.message, error.code);
  throw Error(error.message);
}

void raise_on_all(Communicator& group, const RankError& error) {
  // The common case costs one small collective.
  std::vector<int64_t> any_failed = {error ? 1 : 0};
  group.all_reduce(as_tensor(any_failed), ReduceOp::max);
  if (any_failed[0] == 0) return;

  const std::vector<std::string> messages = all_gather_strings(group, error.message);
  const std::vector<std::string> causes =
      all_gather_strings(group, error.of_peer ? "" : error.message);
  const bool known =
      std::ranges::any_of(causes, [](const std::string& cause) { return !cause.empty(); });
  const std::vector<std::string>& errors = known ? causes : messages;
  std::vector<size_t> failed;
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) failed.push_back(rank);
  }
  const std::string& first = errors[failed.front()];
  std::vector<int64_t> code = {static_cast<int64_t>(error.code)};
  group.broadcast(as_tensor(code), narrow<int>(failed.front()));
  const auto exit_code = static_cast<ExitCode>(code[0]);
  const bool all_alike = std::all_of(errors.begin(), errors.end(),
                                     [&](const std::string& other) { return other == first; });
  if (all_alike) throw SharedError(first, exit_code);
  if (failed.size() == 1) {
    throw SharedError(fmt::format("rank {} of {}: {}", failed.front(), errors.size(), first),
                      exit_code);
  }
  const std::string who =
      failed.size() == errors.size()
          ? fmt::format("all {} ranks", errors.size())
          : fmt::format("ranks {} of {}", fmt::join(failed, ", "), errors.size());
  throw SharedError(fmt::format("{}, of which the first: {}", who, first), exit_code);
}

}  // namespace tessera
