#include "core/trace/work_log.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace tessera {

OpWork& OpWork::operator+=(const OpWork& other) {
  matmul_flops += other.matmul_flops;
  flops += other.flops;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

void WorkLog::enter(const char* name, bool of_op) { ranges_.push_back({name, of_op}); }

void WorkLog::leave() {
  ranges_.pop_back();
  if (ranges_.empty() || !ranges_.back().of_op) op_is_logged_ = false;
}

void WorkLog::add(const OpWork& work) {
  const auto op = std::find_if(ranges_.begin(), ranges_.end(), [](Range r) { return r.of_op; });
  require(op != ranges_.end(), "work log: an op without an OpRange logs work");
  Event event;
  for (auto range = ranges_.begin(); range != op; ++range) {
    event.range += (event.range.empty() ? "" : "/") + std::string(range->name);
  }
  event.op = op->name;
  event.continues = std::exchange(op_is_logged_, true);
  event.work = work;
  events_.push_back(std::move(event));
}

size_t WorkLog::start(Transfer transfer) {
  Event event;
  event.kind = Event::Kind::start;
  event.transfer = transfers_.size();
  events_.push_back(event);
  transfers_.push_back(std::move(transfer));
  return event.transfer;
}

void WorkLog::wait(size_t transfer) {
  Event event;
  event.kind = Event::Kind::wait;
  event.transfer = transfer;
  events_.push_back(std::move(event));
}

void WorkLog::repeat_since(size_t first, int64_t times) {
  for (size_t i = first; i < events_.size(); ++i) events_[i].times = times;
}

}  // namespace tessera
