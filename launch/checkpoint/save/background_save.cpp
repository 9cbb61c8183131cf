#include "launch/checkpoint/save/background_save.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

double seconds_since(BackgroundSave::Clock::time_point start) {
  return std::chrono::duration<double>(BackgroundSave::Clock::now() - start).count();
}

/// Ends an aborted job. Not a failure of its own.
class SaveAborted : public std::exception {};

}  // namespace

void BackgroundSave::reserve(size_t bytes, Device from) {
  require(!pending(), "a checkpoint is being saved in the background: its copies are in use");
  thread_.wait();
  copies_.reserve(bytes, from);
  thread_.start([this] { copies_.touch(); });
}

void BackgroundSave::begin(const SaveRequest& request, Clock::time_point since) {
  require(!pending(), "a checkpoint is being saved in the background: the next one must wait");
  thread_.wait();  // until the pages of the copies are mapped
  aborted_ = false;
  SaveRequest watched = request;
  watched.observer = [this, observer = request.observer](const char* point) {
    if (observer) observer(point);
    if (aborted_ && stage_ == Stage::writing) throw SaveAborted();
  };
  stage_ = Stage::writing;
  background_seconds_ = 0.0;
  steps_ = std::make_unique<SaveSteps>(std::move(watched));
  try {
    steps_->agree(world_);
    all_or_none(world_, [&] {
      if (world_.rank() == 0) steps_->create();
    });
    all_or_none(world_, [&] {
      steps_->set_tensors(copies_.copy(request.tensors));
      steps_->observe("after_copy");
    });
    if (request.check) request.check();
    all_or_none(world_, [&] {
      start([this] {
        steps_->add_checksums();
        written_ = steps_->write();
      });
    });
  } catch (const SharedError& error) {
    fail_together(error);
  }
  seconds_ = seconds_since(since);
}

std::optional<SavedCheckpoint> BackgroundSave::poll() {
  require(pending(), "no checkpoint is being saved in the background");
  // {1 if any rank is still working, 1 if any rank has failed}
  std::array<int32_t, 2> any = {thread_.running() ? 1 : 0, thread_.failed() ? 1 : 0};
  world_.all_reduce(Tensor(any.data(), {2}, DType::i32, kCpu), ReduceOp::max);
  if (any[1] != 0) aborted_ = true;  // the others can stop, too
  if (any[0] != 0 && any[1] == 0) return std::nullopt;
  return advance();
}

SavedCheckpoint BackgroundSave::finish() {
  require(pending(), "no checkpoint is being saved in the background");
  const auto start = Clock::now();
  while (true) {
    if (std::optional<SavedCheckpoint> saved = advance()) {
      saved->seconds += seconds_since(start);
      return *saved;
    }
  }
}

void BackgroundSave::start(std::function<void()> job) {
  thread_.start([this, job = std::move(job)] {
    const auto begin = Clock::now();
    job();
    job_seconds_ = seconds_since(begin);
  });
}

std::optional<SavedCheckpoint> BackgroundSave::advance() {
  try {
    wait_for_all();
    if (stage_ == Stage::writing) {
      begin_to_publish();
      return std::nullopt;
    }
  } catch (const SharedError& error) {
    fail_together(error);
  }
  SavedCheckpoint saved = steps_->saved();
  saved.seconds = seconds_;
  saved.background_seconds = background_seconds_;
  steps_.reset();
  return saved;
}

void BackgroundSave::wait_for_all() {
  RankError error;
  try {
    thread_.wait();
  } catch (const SaveAborted&) {
  } catch (const std::exception&) {
    error = handled_error();
  }
  raise_on_all(world_, error);
  double seconds = std::exchange(job_seconds_, 0.0);
  world_.all_reduce(Tensor(&seconds, {1}, DType::f64, kCpu), ReduceOp::max);
  background_seconds_ += seconds;
}

void BackgroundSave::begin_to_publish() {
  written_of_rank_ = gather_strings(world_, std::exchange(written_, {}), 0);
  stage_ = Stage::publishing;
  all_or_none(world_, [&] {
    if (world_.rank() != 0) return;
    start([this] {
      steps_->publish(std::move(written_of_rank_));
      steps_->prune();
    });
  });
}

void BackgroundSave::fail_together(const SharedError& error) {
  aborted_ = true;
  thread_.discard();  // in case another rank could not even start
  world_.barrier();
  steps_->discard();
  const SharedError failure = steps_->failure(error, world_);
  steps_.reset();
  throw failure;
}

}  // namespace tessera
