#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// The least work of an op on a GPU: the operations of its formula, and each tensor read or written
/// once, whatever is read again because no cache holds it.
struct OpWork {
  double matmul_flops = 0.0;  ///< of products that tensor cores can run, 2 per multiply-add
  double flops = 0.0;         ///< of everything else; exp, tanh, a division or a root count as 1
  double bytes_read = 0.0;
  double bytes_written = 0.0;

  double bytes() const { return bytes_read + bytes_written; }
  OpWork& operator+=(const OpWork& other);
  bool operator==(const OpWork&) const = default;
};

/// The work of a GPU in a dry run, in order: ops with their FLOPs and bytes, and where collectives
/// start and are waited for. The ops of the meta device (core/ops/meta) and MetaCommunicator add to
/// the log that a WorkLog::Scope selects for their thread.
class WorkLog {
 public:
  /// A collective of one rank.
  struct Transfer {
    std::string group;  ///< the name of the group of ranks
    int ranks = 1;
    std::string purpose;     ///< "gradients"
    std::string collective;  ///< "all_reduce"
    int64_t bytes = 0;       ///< of the larger tensor
    double bytes_sent = 0.0;
  };

  struct Event {
    enum class Kind : uint8_t { op, start, wait };
    Kind kind = Kind::op;
    std::string range;       ///< op: the TraceRanges around it, "blocks.3/attention"
    std::string op;          ///< op: its name; of an op that calls others, the outer one's
    bool continues = false;  ///< op: belongs to the same call of it as the event before
    OpWork work = {};        ///< op: of one kernel
    size_t transfer = 0;     ///< start, wait: index in transfers()
    int64_t times = 1;       ///< how often the step does this, see repeat_since()
  };

  WorkLog() = default;
  WorkLog(const WorkLog&) = delete;
  WorkLog& operator=(const WorkLog&) = delete;

  /// The calling thread's log; null if it has none.
  static WorkLog* current() { return current_; }

  /// Sets the calling thread's log for the lifetime of the scope.
  class Scope {
   public:
    explicit Scope(WorkLog* log) : outer_(current_) { current_ = log; }
    ~Scope() { current_ = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WorkLog* outer_;
  };

  /// Called by each TraceRange. `of_op` says that it is the range of an op, not of a layer.
  void enter(const char* name, bool of_op);
  void leave();

  /// Logs a kernel of the outermost op that is running. Throws if none is.
  void add(const OpWork& work);

  /// A collective starts; returns its index. Then the wait for it, which may come at once.
  size_t start(Transfer transfer);
  void wait(size_t transfer);

  /// Says that what was logged since there were `first` events happens `times` times in a row.
  void repeat_since(size_t first, int64_t times);

  const std::vector<Event>& events() const { return events_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }

 private:
  struct Range {
    const char* name;
    bool of_op;
  };

  inline static constinit thread_local WorkLog* current_ = nullptr;

  std::vector<Range> ranges_;  // that are open
  bool op_is_logged_ = false;  // the last event is of this call of the outermost op
  std::vector<Event> events_;
  std::vector<Transfer> transfers_;
};

}  // namespace tessera
