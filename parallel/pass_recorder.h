#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace tessera {

/// Runs host actions of a pass that enqueue no kernels, such as starting a collective. While a pass
/// is captured as a graph, the graph is cut there, and the actions are kept: a launch runs them
/// between the graph's parts. Nothing may be pending on the captured stream at a cut.
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
