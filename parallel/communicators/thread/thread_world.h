#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera {

/// State shared by all ranks of one run_thread_ranks(), in all their groups: one lock for all
/// bookkeeping, and which ranks have ended. Members that take a lock require `mutex` to be held.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size);

  /// Creates a condition variable that is notified when a rank ends. Each group waits on its own.
  std::shared_ptr<std::condition_variable> add_condition(const std::unique_lock<std::mutex>&);

  /// `rank` returned from its body.
  void end(int rank);
  /// `rank` left its body by the exception being handled.
  void end_by_exception(int rank);

  /// Throws PeerError, naming `operation`, if any rank failed.
  void check(const std::string& operation, const std::unique_lock<std::mutex>&) const;

  /// Whether `rank` has returned from its body.
  bool returned(int rank, const std::unique_lock<std::mutex>&) const;

  /// Rethrows the exception of the first failing rank, if any; a PeerError only if there is no
  /// other. Call it after all ranks have ended.
  void rethrow_first_error() const;

  std::mutex mutex;

 private:
  void notify_all();

  static constexpr int kNone = -1;

  std::vector<std::weak_ptr<std::condition_variable>> conditions_;
  std::vector<bool> returned_;
  std::vector<std::exception_ptr> errors_;
  int first_failed_ = kNone;
  int first_cause_ = kNone;  ///< the first that failed with something other than a PeerError
};

}  // namespace tessera
