#include "parallel/communicators/recorded_call.h"

#include <exception>
#include <utility>

namespace tessera {
namespace {

class RecordedPending final : public PendingCollective {
 public:
  RecordedPending(std::unique_ptr<PendingCollective> pending, FlightRecorder& recorder,
                  uint64_t number)
      : pending_(std::move(pending)), recorder_(recorder), number_(number) {}

  // The inner destructor waits.
  ~RecordedPending() override {
    if (ended_) return;
    recorder_.wait(number_);
    {
      const FlightRecorder::Call call(recorder_);
      pending_.reset();
    }
    recorder_.end(number_);
  }

  void wait() override {
    if (ended_) return;
    recorder_.wait(number_);
    const FlightRecorder::Call call(recorder_);
    pending_->wait();
    end();
  }

  bool progress() override {
    if (ended_) return true;
    const FlightRecorder::Call call(recorder_);
    if (pending_->progress()) end();
    return ended_;
  }

  RecordedPending(const RecordedPending&) = delete;
  RecordedPending& operator=(const RecordedPending&) = delete;

 private:
  void end() {
    recorder_.end(number_);
    ended_ = true;
  }

  std::unique_ptr<PendingCollective> pending_;
  FlightRecorder& recorder_;
  uint64_t number_;
  bool ended_ = false;
};

}  // namespace

FlightRecorder* RecordedCall::recorder_for(const Communicator& group) {
  FlightRecorder* recorder = FlightRecorder::current();
  return recorder == nullptr || recorder->in_call() || group.size() == 1 ? nullptr : recorder;
}

RecordedCall::RecordedCall(const Communicator& group, Collective kind, int64_t bytes,
                           std::span<const FlightPeer> peers)
    : recorder_(recorder_for(group)), exceptions_(std::uncaught_exceptions()) {
  if (recorder_ == nullptr) return;
  number_ = recorder_->start(group.recorded_group(*recorder_), to_string(kind),
                             to_string(TrafficScope::current()), bytes, peers);
  recorder_->wait(number_);
  call_.emplace(*recorder_);
}

RecordedCall::~RecordedCall() {
  // A call that failed stays as what the rank waited for, among its last words.
  if (recorder_ != nullptr && std::uncaught_exceptions() == exceptions_) recorder_->end(number_);
}

std::unique_ptr<PendingCollective> RecordedCall::start_pending(
    const Communicator& group, Collective kind, int64_t bytes,
    const std::function<std::unique_ptr<PendingCollective>()>& start,
    std::span<const FlightPeer> peers) {
  FlightRecorder* recorder = recorder_for(group);
  if (recorder == nullptr) return start();
  const uint64_t number = recorder->start(group.recorded_group(*recorder), to_string(kind),
                                          to_string(TrafficScope::current()), bytes, peers);
  const FlightRecorder::Call call(*recorder);
  return std::make_unique<RecordedPending>(start(), *recorder, number);
}

}  // namespace tessera
