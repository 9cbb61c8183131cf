#include "parallel/communicators/thread/thread_world.h"

#include <algorithm>

#include "core/error.h"
#include "parallel/communicators/exchange.h"

namespace tessera {

ThreadWorld::ThreadWorld(int size)
    : returned_(static_cast<size_t>(size)), errors_(static_cast<size_t>(size)) {}

std::shared_ptr<std::condition_variable> ThreadWorld::add_condition(
    const std::unique_lock<std::mutex>&) {
  std::erase_if(conditions_, [](const auto& condition) { return condition.expired(); });
  auto condition = std::make_shared<std::condition_variable>();
  conditions_.push_back(condition);
  return condition;
}

void ThreadWorld::end(int rank) {
  const std::lock_guard lock(mutex);
  returned_[static_cast<size_t>(rank)] = true;
  notify_all();
}

void ThreadWorld::end_by_exception(int rank) {
  const std::lock_guard lock(mutex);
  errors_[static_cast<size_t>(rank)] = std::current_exception();
  if (first_failed_ == kNone) first_failed_ = rank;
  if (first_cause_ == kNone && !handled_error().of_peer) first_cause_ = rank;
  notify_all();
}

void ThreadWorld::notify_all() {
  for (const auto& weak : conditions_) {
    if (const auto condition = weak.lock()) condition->notify_all();
  }
}

void ThreadWorld::check(const std::string& operation, const std::unique_lock<std::mutex>&) const {
  if (first_failed_ == kNone) return;
  throw PeerError(
      fmt::format("{}: rank {} of the thread ranks has failed", operation, first_failed_));
}

bool ThreadWorld::returned(int rank, const std::unique_lock<std::mutex>&) const {
  return returned_[static_cast<size_t>(rank)];
}

void ThreadWorld::rethrow_first_error() const {
  const int rank = first_cause_ == kNone ? first_failed_ : first_cause_;
  if (rank != kNone) std::rethrow_exception(errors_[static_cast<size_t>(rank)]);
}

}  // namespace tessera
