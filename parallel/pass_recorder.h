#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace tessera {

/// Keeps what the host does in a pass that is captured as a graph, besides enqueuing kernels, such
/// as starting a collective. The graph is cut there, and a launch runs the actions between its
/// parts. Nothing may be pending on another stream at a cut.
class PassRecorder {
 public:
  using Action = std::function<void()>;

  /// `cut` ends the part of the graph that is captured and begins the next one.
  explicit PassRecorder(std::function<void()> cut) : cut_(std::move(cut)) {}

  void add(Action action) {
    actions_.push_back(std::move(action));
    cut_();
  }
  /// One for each cut, in order.
  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

 private:
  std::function<void()> cut_;
  std::vector<Action> actions_;
};

}  // namespace tessera
