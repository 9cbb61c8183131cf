#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/staged/staging_pool.h"

namespace tessera {

/// A copy from pinned memory to a GPU.
struct StagedCopy {
  Tensor from, to;
};

/// One piece of a collective on GPU tensors, which the host ranks process in pinned memory.
class StagedPiece {
 public:
  /// `copies` out of the block are enqueued when `running` is complete.
  StagedPiece(StagingPool::Lease block, std::unique_ptr<PendingCollective> running,
              std::vector<StagedCopy> copies)
      : block_(std::move(block)), running_(std::move(running)), copies_(std::move(copies)) {}

  bool finished() const { return running_ == nullptr; }
  /// Waits for the result and enqueues its copies.
  void finish();
  /// Calls finish() if the result is ready. Returns true when the copies are enqueued.
  bool progress();
  /// For a rank that is unwinding because of an exception: copies nothing back.
  void abandon() { running_.reset(); }

 private:
  StagingPool::Lease block_;
  std::unique_ptr<PendingCollective> running_;
  std::vector<StagedCopy> copies_;
};

/// The pieces of a group's pending collectives, in start order.
class StagedQueue {
 public:
  static constexpr size_t kMostPieces = 8;

  explicit StagedQueue(std::shared_ptr<StagingPool> pool) : pool_(std::move(pool)) {}

  const std::shared_ptr<StagingPool>& pool() const { return pool_; }

  /// Finishes the oldest pieces if there are too many.
  void make_room();
  std::shared_ptr<StagedPiece> push(StagingPool::Lease block,
                                    std::unique_ptr<PendingCollective> running,
                                    std::vector<StagedCopy> copies);

 private:
  std::shared_ptr<StagingPool> pool_;
  std::deque<std::shared_ptr<StagedPiece>> pieces_;
};

/// A collective on GPU tensors, made of pieces.
class StagedPending final : public PendingCollective {
 public:
  explicit StagedPending(std::shared_ptr<StagedQueue> queue) : queue_(std::move(queue)) {}
  StagedPending(const StagedPending&) = delete;
  StagedPending& operator=(const StagedPending&) = delete;
  ~StagedPending() override;

  void add(std::shared_ptr<StagedPiece> piece) { pieces_.push_back(std::move(piece)); }

  void wait() override;
  bool progress() override;

 private:
  std::shared_ptr<StagedQueue> queue_;  ///< keeps the pool alive, which the pieces need
  std::vector<std::shared_ptr<StagedPiece>> pieces_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
