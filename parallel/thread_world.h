#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera {

/// What the ranks of one run_thread_ranks share, whatever groups they form: one lock for all
/// bookkeeping, and who has ended. Members with a lock as argument are called with `mutex` held.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size);

  /// A condition that is notified when a rank ends. A group waits on its own.
  std::shared_ptr<std::condition_variable> add_condition(const std::unique_lock<std::mutex>&);

  /// `rank` returned from its body or, with `error`, left it by an exception.
  void end(int rank, std::exception_ptr error);

  /// `rank` left a collective unfinished because an exception passes through it, so that whatever
  /// others throw in consequence is not the first error.
  void suspect(int rank, const std::unique_lock<std::mutex>&);

  /// Throws, naming `operation`, if any rank failed.
  void check(const std::string& operation, const std::unique_lock<std::mutex>&) const;

  /// Whether `rank` has returned from its body.
  bool returned(int rank, const std::unique_lock<std::mutex>&) const;

  /// Rethrows what the first failing rank threw, if any. After all have ended.
  void rethrow_first_error() const;

  std::mutex mutex;

 private:
  static constexpr int kNone = -1;

  std::vector<std::weak_ptr<std::condition_variable>> conditions_;
  std::vector<bool> returned_;
  std::vector<std::exception_ptr> errors_;
  int suspect_ = kNone;
  int first_failed_ = kNone;
};

}  // namespace tessera
