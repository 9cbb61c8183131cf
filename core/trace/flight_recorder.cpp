#include "core/trace/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/process_stat.h"

namespace tessera {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

template <size_t kSize>
void copy_text(std::string_view text, std::array<char, kSize>& to) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to.data(), text.data(), length);
  to[length] = '\0';
}

/// "step/blocks.3/attention": the innermost names that fit.
template <size_t kSize>
void copy_place(const PlaceStack& places, std::array<char, kSize>& to) {
  const uint32_t depth = std::min(places.depth.load(kRelaxed), PlaceStack::kDepth);
  size_t end = 0;
  for (uint32_t i = 0; i < depth; ++i) {
    const char* name = places.names[i].data();
    const size_t length = ::strnlen(name, PlaceStack::kName);
    if (end + length + 2 > kSize) break;
    if (end > 0) to[end++] = '/';
    std::memcpy(to.data() + end, name, length);
    end += length;
  }
  to[end] = '\0';
}

/// The open file of a ring.
class RingFile {
 public:
  /// Makes a file with room for a ring, or replaces it.
  explicit RingFile(std::string name) : name_(std::move(name)) {
    ::unlink(name_.c_str());  // one of a run before, which a reader may still have open
    file_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    require(file_ >= 0, "the flight recorder's file {} cannot be created: {}", name_, why(errno));
    // Without room on the disk, a later write to the memory would end the process.
    const int full = ::posix_fallocate(file_, 0, sizeof(FlightRing));
    if (full != 0) give_up(full);
  }
  ~RingFile() { ::close(file_); }
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  int get() const { return file_; }

  /// Maps it anywhere or, if `at` is a mapping, in its place.
  void* map(void* at) const {
    const int flags = at == nullptr ? MAP_SHARED : MAP_SHARED | MAP_FIXED;
    void* memory = ::mmap(at, sizeof(FlightRing), PROT_READ | PROT_WRITE, flags, file_, 0);
    if (memory == MAP_FAILED) give_up(errno);
    return memory;
  }

  [[noreturn]] void give_up(int error) const {
    ::unlink(name_.c_str());
    fail("the flight recorder's file {} of {} bytes cannot be created: {}", name_,
         sizeof(FlightRing), why(error));
  }

 private:
  static std::string why(int error) { return std::generic_category().message(error); }

  std::string name_;
  int file_ = -1;
};

std::atomic<uint64_t> next_recorder{1};

}  // namespace

int64_t now_in_nanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

uint64_t own_pid_namespace() {
  struct stat found = {};
  return ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

FlightRecorder::FlightRecorder(const std::filesystem::path& file, int rank, int ranks,
                               std::string_view host)
    : file_(file), id_(next_recorder++), exceptions_(std::uncaught_exceptions()) {
  const RingFile made(file.string());
  remember(made.get());
  ring_ = new (made.map(nullptr)) FlightRing;
  ring_->version = FlightRing::kVersion;
  ring_->bytes = sizeof(FlightRing);
  ring_->rank = rank;
  ring_->ranks = ranks;
  ring_->process = getpid();
  const auto stat = read_process_stat(getpid());
  ring_->process_start = stat ? stat->start : 0;
  ring_->pid_namespace = own_pid_namespace();
  ring_->started = now_in_nanoseconds();
  ring_->heartbeat = ring_->started;
  copy_text(host, ring_->host);
  ring_->magic.store(FlightRing::kMagic, std::memory_order_release);
}

void FlightRecorder::remember(int file) {
  struct stat found = {};
  if (::fstat(file, &found) != 0) return;
  device_ = found.st_dev;
  inode_ = found.st_ino;
}

void FlightRecorder::restore_file() {
  struct stat found = {};
  if (::stat(file_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_) {
    return;
  }
  std::error_code ignored;  // the file cannot be made then, which says why
  std::filesystem::create_directories(file_.parent_path(), ignored);
  // Readers never see half of it.
  const std::string name = (file_.parent_path() / ("." + file_.filename().string())).string();
  const RingFile made(name);
  const ssize_t written = ::pwrite(made.get(), ring_, sizeof(FlightRing), 0);
  if (written != static_cast<ssize_t>(sizeof(FlightRing))) made.give_up(written < 0 ? errno : EIO);
  if (::rename(name.c_str(), file_.c_str()) != 0) made.give_up(errno);
  made.map(ring_);
  remember(made.get());
}

FlightRecorder::~FlightRecorder() {
  const bool failed = std::uncaught_exceptions() > exceptions_;
  end(failed ? RankEnd::failed : RankEnd::finished, "");
  ::munmap(ring_, sizeof(FlightRing));
}

int FlightRecorder::add_group(std::string_view name, int first, int stride, int size, int rank) {
  const uint32_t index = ring_->num_groups.load(kRelaxed);
  if (index == FlightRing::kGroups) return FlightRing::kGroups - 1;
  FlightGroup& group = ring_->groups[index];
  const bool shared = index + 1 == FlightRing::kGroups;
  copy_text(shared ? "other groups" : name, group.name);
  group.first = first;
  group.stride = shared ? 0 : stride;
  group.size = size;
  group.rank = rank;
  ring_->num_groups.store(index + 1, std::memory_order_release);
  return static_cast<int>(index);
}

uint64_t FlightRecorder::start(int group, std::string_view kind, std::string_view purpose,
                               int64_t bytes, std::span<const FlightPeer> peers) {
  const uint64_t number = ring_->entries.load(kRelaxed);
  FlightEntry& made = entry(number);
  made.number.exchange(0, std::memory_order_acq_rel);  // before the writes below
  std::atomic<uint64_t>& calls = ring_->groups[static_cast<size_t>(group)].started;
  made.call = calls.load(kRelaxed);
  made.group = group;
  made.num_peers = static_cast<int32_t>(peers.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    FlightPeer& total = messages_[{group, peers[i].rank}];
    total.rank = peers[i].rank;
    total.sent += peers[i].sent;
    total.received += peers[i].received;
    if (i < FlightEntry::kPeers) made.peers[i] = total;
  }
  made.step = ring_->step.load(kRelaxed);
  made.micro_batch = ring_->micro_batch.load(kRelaxed);
  made.bytes = bytes;
  made.started = now_in_nanoseconds();
  made.waited.store(0, kRelaxed);
  made.ended.store(0, kRelaxed);
  copy_text(kind, made.kind);
  copy_text(purpose, made.purpose);
  copy_place(ring_->places, made.place);
  made.number.store(number + 1, std::memory_order_release);
  ring_->entries.store(number + 1, std::memory_order_release);
  if (peers.empty()) calls.store(made.call + 1, std::memory_order_release);
  return number;
}

void FlightRecorder::wait(uint64_t number) {
  FlightEntry& waits = entry(number);
  const bool known = waits.number.load(kRelaxed) == number + 1;
  const bool at_once = known && ring_->entries.load(kRelaxed) == number + 1;
  const int64_t now = at_once ? waits.started : now_in_nanoseconds();
  if (known) waits.waited.store(now, kRelaxed);
  ring_->waiting_since.store(now, kRelaxed);
  ring_->waiting.store(number + 1, std::memory_order_release);
}

void FlightRecorder::end(uint64_t number) {
  FlightEntry& ended = entry(number);
  const int64_t now = now_in_nanoseconds();
  if (ended.number.load(kRelaxed) == number + 1) ended.ended.store(now, kRelaxed);
  if (ring_->waiting.load(kRelaxed) != number + 1) return;
  waited_ += std::max<int64_t>(0, now - ring_->waiting_since.load(kRelaxed));
  ring_->waiting.store(0, std::memory_order_release);
}

FlightRecorder::GpuWait::GpuWait() : recorder_(FlightRecorder::current()) {
  if (recorder_ == nullptr) return;
  if (recorder_->in_call() || recorder_->ring_->waiting.load(kRelaxed) != 0) {
    recorder_ = nullptr;
    return;
  }
  recorder_->ring_->waiting_since.store(now_in_nanoseconds(), kRelaxed);
  recorder_->ring_->waiting.store(FlightRing::kGpu, std::memory_order_release);
}

FlightRecorder::GpuWait::~GpuWait() {
  if (recorder_ != nullptr) recorder_->ring_->waiting.store(0, std::memory_order_release);
}

void FlightRecorder::begin_step(int64_t step) {
  ring_->step.store(step, kRelaxed);
  ring_->step_began.store(now_in_nanoseconds(), kRelaxed);
}

void FlightRecorder::begin_micro_batch(int64_t index, int64_t count) {
  ring_->micro_batch.store(index, kRelaxed);
  ring_->micro_batches.store(count, kRelaxed);
}

void FlightRecorder::end_step() {
  ring_->step_length.store(now_in_nanoseconds() - ring_->step_began.load(kRelaxed), kRelaxed);
  ring_->steps_here.store(ring_->steps_here.load(kRelaxed) + 1, kRelaxed);
}

void FlightRecorder::end(RankEnd how, std::string_view last_words) {
  RankEnd running = RankEnd::running;
  if (!ring_->end.compare_exchange_strong(running, how)) return;
  copy_text(last_words, ring_->last_words);
  ring_->heartbeat.store(now_in_nanoseconds(), kRelaxed);
}

}  // namespace tessera
