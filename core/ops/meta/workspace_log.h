#pragma once

#include <algorithm>
#include <cstddef>

namespace tessera {

/// The scratch memory that the ops of a dry run would request on a GPU (core/cuda/workspace.h).
/// They share one block, so only the largest request counts.
class WorkspaceLog {
 public:
  /// `has_gpu` says that the run's GPU is the calling thread's: libraries are then asked how much
  /// they need, and cuDNN compiles plans for that. Otherwise it is estimated.
  explicit WorkspaceLog(bool has_gpu) : has_gpu_(has_gpu) {}

  /// The calling thread's log; null if it has none.
  static WorkspaceLog* current() { return current_; }

  /// Sets the calling thread's log for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(WorkspaceLog* log) : outer_(current_) { current_ = log; }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WorkspaceLog* outer_;
  };

  bool has_gpu() const { return has_gpu_; }
  void add(size_t bytes) { largest_ = std::max(largest_, bytes); }
  size_t largest() const { return largest_; }

 private:
  inline static constinit thread_local WorkspaceLog* current_ = nullptr;

  bool has_gpu_;
  size_t largest_ = 0;
};

namespace meta {

/// Adds to the calling thread's workspace log, if it has one.
inline void log_workspace(size_t bytes) {
  if (WorkspaceLog* log = WorkspaceLog::current(); log != nullptr) log->add(bytes);
}

}  // namespace meta
}  // namespace tessera
