#include "parallel/communicators/thread/thread_call.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "parallel/communicators/reduce.h"

namespace tessera {
namespace {

using Kind = ThreadCall::Kind;

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "all_reduce";
    case Kind::all_reduce_async:
      return "all_reduce_async";
    case Kind::all_gather:
      return "all_gather";
    case Kind::all_gather_async:
      return "all_gather_async";
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::reduce_scatter_async:
      return "reduce_scatter_async";
    case Kind::broadcast:
      return "broadcast";
    case Kind::barrier:
      return "barrier";
    case Kind::split:
      return "split";
  }
  return "?";
}

std::string brief(const Tensor& tensor) {
  return fmt::format("{} {}", to_string(tensor.dtype()), to_string(tensor.shape()));
}

void* at(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) +
         static_cast<size_t>(element) * size_of(tensor.dtype());
}

std::vector<const void*> inputs_at(std::span<const ThreadCall> calls, int64_t element) {
  std::vector<const void*> result;
  for (const ThreadCall& call : calls) result.push_back(at(call.input, element));
  return result;
}

void run_all_reduce(std::span<const ThreadCall> calls, int unit) {
  // Whole cache lines, so that threads working on neighboring parts do not share one.
  const Tensor& first = calls[0].output;
  const int64_t chunk = round_up(ceil_div(first.numel(), static_cast<int64_t>(calls.size())), 64);
  const int64_t begin = std::min(unit * chunk, first.numel());
  const int64_t end = std::min(begin + chunk, first.numel());
  std::vector<void*> outputs;
  for (const ThreadCall& call : calls) outputs.push_back(at(call.output, begin));
  reduce_elements(first.dtype(), calls[0].op, inputs_at(calls, begin), outputs, end - begin);
}

void run_all_gather(std::span<const ThreadCall> calls, int unit) {
  auto* output = static_cast<std::byte*>(calls[static_cast<size_t>(unit)].output.raw());
  for (const ThreadCall& call : calls) {
    const void* input = call.input.raw();
    if (input != output)
      std::memcpy(output, input, call.input.bytes());  // skip this rank's own part if in place
    output += call.input.bytes();
  }
}

void run_reduce_scatter(std::span<const ThreadCall> calls, int unit) {
  const Tensor& part = calls[static_cast<size_t>(unit)].output;
  void* output = part.raw();
  reduce_elements(part.dtype(), calls[0].op, inputs_at(calls, unit * part.numel()), {&output, 1},
                  part.numel());
}

void run_broadcast(std::span<const ThreadCall> calls, int unit) {
  const int root = calls[0].root;
  if (unit == root) return;
  const Tensor& from = calls[static_cast<size_t>(root)].input;
  std::memcpy(calls[static_cast<size_t>(unit)].output.raw(), from.raw(), from.bytes());
}

}  // namespace

bool is_async(Kind kind) {
  return kind == Kind::all_reduce_async || kind == Kind::all_gather_async ||
         kind == Kind::reduce_scatter_async;
}

std::string describe(const ThreadCall& call) {
  const std::string_view kind = to_string(call.kind);
  switch (call.kind) {
    case Kind::all_reduce:
    case Kind::all_reduce_async:
      return fmt::format("{}({}) of {}", kind, to_string(call.op), brief(call.input));
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_async:
      return fmt::format("{}({}) of {} into {}", kind, to_string(call.op), brief(call.input),
                         brief(call.output));
    case Kind::all_gather:
    case Kind::all_gather_async:
      return fmt::format("{} of {} into {}", kind, brief(call.input), brief(call.output));
    case Kind::broadcast:
      return fmt::format("{} from rank {} of {}", kind, call.root, brief(call.input));
    case Kind::barrier:
    case Kind::split:
      break;
  }
  return std::string(kind);
}

bool agree(const ThreadCall& a, const ThreadCall& b) {
  const auto alike = [](const Tensor& s, const Tensor& t) {
    return s.dtype() == t.dtype() && s.shape() == t.shape();
  };
  return a.kind == b.kind && a.op == b.op && a.root == b.root && alike(a.input, b.input) &&
         alike(a.output, b.output);
}

void run_unit(std::span<const ThreadCall> calls, int unit) {
  switch (calls[0].kind) {
    case Kind::all_reduce:
    case Kind::all_reduce_async:
      return run_all_reduce(calls, unit);
    case Kind::all_gather:
    case Kind::all_gather_async:
      return run_all_gather(calls, unit);
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_async:
      return run_reduce_scatter(calls, unit);
    case Kind::broadcast:
      return run_broadcast(calls, unit);
    case Kind::barrier:
    case Kind::split:
      return;
  }
}

}  // namespace tessera
