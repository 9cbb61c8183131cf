#pragma once

#include <functional>
#include <vector>

namespace simt {

struct Graph {
  std::vector<std::function<void()>> work;
};

/// What a stream is given while it is captured, which is not done.
class Capture {
 public:
  void begin();
  /// Ends it; false, with an empty graph, if it was broken.
  bool end(Graph& graph);

  bool active() const { return active_; }
  bool broken() const { return broken_; }
  void add(std::function<void()> work) { graph_.work.push_back(std::move(work)); }

  /// To be asked by what a capture does not allow: whether there is one, which is broken then.
  bool forbids() { return broken_ |= active_; }

 private:
  bool active_ = false, broken_ = false;
  Graph graph_;
};

/// The same of whatever the calling thread captures, for what concerns no one stream.
bool thread_capture_forbids();

}  // namespace simt
