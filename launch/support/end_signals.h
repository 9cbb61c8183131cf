#pragma once

namespace tessera {

/// Whether this process was started to ignore a signal, as nohup(1) does with SIGHUP.
bool is_ignored(int signal);

/// During its lifetime, SIGINT and SIGTERM end the waiting of a command that watches something,
/// instead of the process. One at a time.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  /// Waits. Returns false if a signal has arrived, and then at once.
  static bool wait(double seconds);

 private:
  using Handler = void (*)(int);
  Handler interrupt_, terminate_;
};

}  // namespace tessera
