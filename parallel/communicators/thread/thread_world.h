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

  /// `rank` returned from its body.
  void end(int rank);
  /// `rank` left its body by the exception that is being handled.
  void end_by_exception(int rank);

  /// Throws PeerError, naming `operation`, if any rank failed.
  void check(const std::string& operation, const std::unique_lock<std::mutex>&) const;

  /// Whether `rank` has returned from its body.
  bool returned(int rank, const std::unique_lock<std::mutex>&) const;

  /// Rethrows what the first failing rank threw, if any, and a PeerError only if there is nothing
  /// else. After all have ended.
  void rethrow_first_error() const;

  std::mutex mutex;

 private:
  void notify_all();

  static constexpr int kNone = -1;

  std::vector<std::weak_ptr<std::condition_variable>> conditions_;
  std::vector<bool> returned_;
  std::vector<std::exception_ptr> errors_;
  int first_failed_ = kNone;
  int first_cause_ = kNone;  ///< of no PeerError
};

}  // namespace tessera
