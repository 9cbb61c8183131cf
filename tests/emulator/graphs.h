#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace emulator {

struct Stream;

/// A piece of a stream's work: false if it cannot be done yet.
using Work = std::function<bool()>;
/// Enqueues a piece of work, now or at each launch of the graph that it is captured in.
using Node = std::function<void(Stream&)>;

struct Graph {
  std::vector<Node> nodes;
};

/// Lets `node` enqueue, or keeps it for a graph while the stream is captured.
void enqueue_node(Stream& stream, Node node);

/// What is captured together: of the stream that it began with, and of all that have waited since
/// for an event of a captured one.
struct Recording {
  const Stream* origin = nullptr;
  std::vector<Stream*> streams;
  bool broken = false, ended = false;
  Graph graph;
};

/// How much of a recording a point of it comes after: of each stream, how many nodes.
using Reach = std::map<const Stream*, size_t>;

/// A stream's part in a recording.
class Capture {
 public:
  bool active() const { return recording_ != nullptr; }
  bool broken() const { return active() && recording_->broken; }
  const std::shared_ptr<Recording>& recording() const { return recording_; }
  const Reach& reach() const { return reach_; }

  /// `stream`, whose this is, is captured from now on.
  void join(std::shared_ptr<Recording> recording, Stream& stream);
  /// What comes next is after all of that.
  void follow(const Reach& reach);
  void add(Node node);
  void leave() { *this = {}; }

  /// To be asked by what a capture does not allow: whether there is one, which is broken then.
  bool forbids();

 private:
  std::shared_ptr<Recording> recording_;
  const Stream* stream_ = nullptr;
  Reach reach_;
};

/// The same of whatever the calling thread captures, for what concerns no one stream.
bool thread_capture_forbids();

}  // namespace emulator
