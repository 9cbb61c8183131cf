#include "parallel/thread_world.h"

#include <algorithm>

#include "core/error.h"

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

void ThreadWorld::end(int rank, std::exception_ptr error) {
  const std::unique_lock lock(mutex);
  if (error == nullptr) {
    returned_[static_cast<size_t>(rank)] = true;
  } else {
    errors_[static_cast<size_t>(rank)] = std::move(error);
    if (first_failed_ == kNone) first_failed_ = rank;
  }
  for (const auto& weak : conditions_) {
    if (const auto condition = weak.lock()) condition->notify_all();
  }
}

void ThreadWorld::suspect(int rank, const std::unique_lock<std::mutex>&) {
  if (suspect_ == kNone && first_failed_ == kNone) suspect_ = rank;
}

void ThreadWorld::check(const std::string& operation, const std::unique_lock<std::mutex>&) const {
  require(first_failed_ == kNone, "{}: rank {} of the thread ranks has failed", operation,
          first_failed_);
}

bool ThreadWorld::returned(int rank, const std::unique_lock<std::mutex>&) const {
  return returned_[static_cast<size_t>(rank)];
}

void ThreadWorld::rethrow_first_error() const {
  if (suspect_ != kNone && errors_[static_cast<size_t>(suspect_)] != nullptr) {
    std::rethrow_exception(errors_[static_cast<size_t>(suspect_)]);
  }
  if (first_failed_ != kNone) std::rethrow_exception(errors_[static_cast<size_t>(first_failed_)]);
}

}  // namespace tessera
