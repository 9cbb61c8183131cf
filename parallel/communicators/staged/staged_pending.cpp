#include "parallel/communicators/staged/staged_pending.h"

#include <utility>

#include "core/ops/elementwise.h"

namespace tessera {

void StagedPiece::finish() {
  if (finished()) return;
  running_->wait();
  running_.reset();
  for (const StagedCopy& part : copies_) copy(part.from, part.to);
  block_->copied.record();
  block_.reset();
}

bool StagedPiece::progress() {
  if (!finished() && running_->progress()) finish();
  return finished();
}

void StagedQueue::make_room() {
  std::erase_if(pieces_, [](const auto& piece) { return piece->finished(); });
  while (pieces_.size() >= kMostPieces) {
    pieces_.front()->finish();
    pieces_.pop_front();
  }
}

std::shared_ptr<StagedPiece> StagedQueue::push(StagingPool::Lease block,
                                               std::unique_ptr<PendingCollective> running,
                                               std::vector<StagedCopy> copies) {
  return pieces_.emplace_back(
      std::make_shared<StagedPiece>(std::move(block), std::move(running), std::move(copies)));
}

StagedPending::~StagedPending() {
  try {
    // Do not wait while an exception propagates: other ranks may be waiting for this one.
    if (std::uncaught_exceptions() > exceptions_) {
      for (const auto& piece : pieces_) piece->abandon();
    } else {
      wait();
    }
  } catch (const std::exception&) {
    // The collective has failed; the next one on this rank reports it.
  }
}

void StagedPending::wait() {
  for (const auto& piece : pieces_) piece->finish();
}

bool StagedPending::progress() {
  bool all = true;
  for (const auto& piece : pieces_) all = piece->progress() && all;
  return all;
}

}  // namespace tessera
