#pragma once

#include "core/tensor.h"

namespace tessera {

/// Sees the tensors that the ops of a thread write, for diagnoses. The dispatch of each op
/// (core/ops/dispatch/dispatch.h) calls the watch that a Scope selects for its thread; without one
/// it only reads a pointer. Ops that a watch calls itself are not shown to it.
class OutputWatch {
 public:
  OutputWatch() = default;
  virtual ~OutputWatch() = default;
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  /// An op has written `output`, or has enqueued this on its device. Called within the op's
  /// OpRange.
  virtual void wrote(const Tensor& output) = 0;

  /// The calling thread's watch; null if it has none.
  static OutputWatch* current() { return current_; }

  /// Sets the calling thread's watch (null: none) for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(OutputWatch* watch) : outer_(current_) { current_ = watch; }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OutputWatch* outer_;
  };

 private:
  inline static constinit thread_local OutputWatch* current_ = nullptr;
};

}  // namespace tessera
