#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace emulator {

struct Stream;

/// A piece of a stream's work; returns false if it cannot be done yet.
using Work = std::function<bool()>;
/// Enqueues a piece of work, now or at each launch of the graph that captured it.
using Node = std::function<void(Stream&)>;

struct Graph {
  std::vector<Node> nodes;
};

/// Lets `node` enqueue its work, or adds it to a graph if the stream is being captured.
void enqueue_node(Stream& stream, Node node);

/// A joint capture of the stream where it began and of all streams that have since waited for an
/// event of a captured stream.
struct Recording {
  const Stream* origin = nullptr;
  std::vector<Stream*> streams;
  bool broken = false, ended = false;
  Graph graph;
};

/// The nodes of a recording that come before a point: how many of each stream.
using Reach = std::map<const Stream*, size_t>;

/// A stream's part in a recording.
class Capture {
 public:
  bool active() const { return recording_ != nullptr; }
  bool broken() const { return active() && recording_->broken; }
  const std::shared_ptr<Recording>& recording() const { return recording_; }
  const Reach& reach() const { return reach_; }

  /// Starts capturing `stream`, to which this capture belongs.
  void join(std::shared_ptr<Recording> recording, Stream& stream);
  /// Orders later work after `reach`.
  void follow(const Reach& reach);
  void add(Node node);
  void leave() { *this = {}; }

  /// For calls that a capture does not allow: invalidates the capture, if any. Returns whether
  /// there is one.
  bool forbids();

 private:
  std::shared_ptr<Recording> recording_;
  const Stream* stream_ = nullptr;
  Reach reach_;
};

/// Does the same for the calling thread's capture, for calls that concern no particular stream.
bool thread_capture_forbids();

}  // namespace emulator
