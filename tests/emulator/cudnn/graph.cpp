// cudnn_frontend's graphs: described, checked in the required order, and run on a handle's stream.

#include <cudnn_frontend.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/checked.h"
#include "tests/emulator/cudnn/context.h"
#include "tests/emulator/cudnn/rules.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/graphs.h"

namespace cudnn_frontend {

error_t DeviceProperties::deserialize(const std::vector<uint8_t>& json) {
  if (!json.empty() && json.front() == '{') return {};
  return {error_code_t::INVALID_VALUE, "a GPU is described by a json_object"};
}

namespace graph {
namespace {

bool is_switched_on(bool backward) {
  const char* value = std::getenv("TESSERA_EMULATOR_CUDNN");
  if (value == nullptr) return false;
  return std::string_view(value) == "1" || (std::string_view(value) == "forward" && !backward);
}

template <typename Check>
error_t error_of(Check check) {
  try {
    check();
    return {};
  } catch (const error_t& error) {
    return error;
  }
}

/// As on Hopper: deterministic gradients take two bytes for each pair of positions.
int64_t workspace_of(const AttentionOperation& operation) {
  const std::vector<int64_t>& dim = operation.q->get_dim();
  const int64_t heads = dim[0] * dim[1];
  if (!operation.backward) return 16 * heads;
  const int64_t pairs =
      operation.options.deterministic
          ? tessera::round_up(dim[2], int64_t{64}) * tessera::round_up(dim[2], int64_t{128})
          : 0;
  return heads * (4 * dim[2] + 2 * pairs);
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (stream != nullptr) cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

Graph::Tensor Graph::tensor(const Tensor_attributes& attributes) {
  return std::make_shared<Tensor_attributes>(attributes);
}

std::array<Graph::Tensor, 2> Graph::sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes) {
  const auto result = [] {
    return std::make_shared<Tensor_attributes>(Tensor_attributes().set_output(false));
  };
  const Tensor o = result(), stats = result();
  operations_.push_back({false, attributes.options, q, k, v, o, stats, {}, {}, {}, {}});
  return {o, stats};
}

std::array<Graph::Tensor, 3> Graph::sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o,
                                                  Tensor d_o, Tensor stats,
                                                  SDPA_backward_attributes attributes) {
  const auto result = [] {
    return std::make_shared<Tensor_attributes>(Tensor_attributes().set_output(false));
  };
  const Tensor dq = result(), dk = result(), dv = result();
  operations_.push_back({true, attributes.options, q, k, v, o, stats, d_o, dq, dk, dv});
  return {dq, dk, dv};
}

error_t Graph::require_state(State needed, const char* call) const {
  if (state_ >= needed) return {};
  return {error_code_t::GRAPH_NOT_SUPPORTED, std::string(call) + " was called out of order"};
}

error_t Graph::validate() {
  if (operations_.size() != 1) {
    return {error_code_t::GRAPH_NOT_SUPPORTED, "only graphs of one attention are emulated"};
  }
  for (const DataType_t type : {io_type_, intermediate_type_, compute_type_}) {
    if (type != DataType_t::NOT_SET) continue;
    return {error_code_t::ATTRIBUTE_NOT_SET,
            "io, intermediate and compute data types have to be set"};
  }
  if (error_t error = error_of([&] { emulator::require_whole(operations_[0]); }); error.is_bad()) {
    return error;
  }
  state_ = State::valid;
  return {};
}

error_t Graph::build_operation_graph() {
  if (error_t error = require_state(State::valid, "build_operation_graph"); error.is_bad()) {
    return error;
  }
  state_ = State::lowered;
  return {};
}

error_t Graph::create_execution_plans(const std::vector<HeurMode_t>& modes) {
  if (error_t error = require_state(State::lowered, "create_execution_plans"); error.is_bad()) {
    return error;
  }
  if (modes.empty()) return {error_code_t::INVALID_VALUE, "no heuristic modes are given"};
  if (!is_switched_on(operations_[0].backward)) {
    return {error_code_t::GRAPH_NOT_SUPPORTED,
            "the emulated cuDNN supports attention only with TESSERA_EMULATOR_CUDNN=1"};
  }
  state_ = State::planned;
  return {};
}

error_t Graph::check_support() {
  if (error_t error = require_state(State::planned, "check_support"); error.is_bad()) return error;
  const auto check = [&] { emulator::require_supported(operations_[0], sm_version_); };
  if (error_t error = error_of(check); error.is_bad()) return error;
  state_ = State::supported;
  return {};
}

error_t Graph::build(cudnnHandle_t handle, const std::vector<HeurMode_t>& modes) {
  if (handle == nullptr) return {error_code_t::HANDLE_ERROR, "the handle is null"};
  if (emulator::thread_capture_forbids()) {
    return {error_code_t::CUDA_API_FAILED, "plans cannot be compiled while a stream is captured"};
  }
  error_t error = validate();
  if (error.is_good()) error = build_operation_graph();
  if (error.is_good()) error = create_execution_plans(modes);
  if (error.is_good()) error = check_support();
  if (error.is_bad()) return error;
  // A plan is a snapshot of the graph; later changes of tensors do not affect it.
  plan_ = std::make_shared<const AttentionOperation>(operations_[0]);
  state_ = State::built;
  return {};
}

error_t Graph::get_workspace_size(int64_t& bytes) const {
  if (error_t error = require_state(State::built, "get_workspace_size"); error.is_bad()) {
    return error;
  }
  bytes = workspace_of(*plan_);
  return {};
}

error_t Graph::execute(cudnnHandle_t handle, std::unordered_map<int64_t, void*>& pointers,
                       void* workspace) const {
  if (error_t error = require_state(State::built, "execute"); error.is_bad()) return error;
  if (handle == nullptr) return {error_code_t::HANDLE_ERROR, "the handle is null"};
  const int64_t bytes = workspace_of(*plan_);
  if (error_t error = error_of([&] {
        emulator::require_pointers(*plan_, pointers);
        emulator::require_device_memory(workspace, bytes, "the workspace");
      });
      error.is_bad()) {
    return error;
  }
  const auto run = [workspace, bytes, pointers](const AttentionOperation& plan) {
    const emulator::DeviceAccess access;
    std::memset(workspace, 0xff, static_cast<size_t>(bytes));  // destroys anything kept there
    emulator::run_cudnn_attention(plan, pointers);
  };
  if (!is_captured(handle->stream)) {
    emulator::enqueue(handle->stream, [run, plan = plan_] { run(*plan); });
    return {};
  }
  // A captured graph launches the plan's kernels, which cuDNN unloads with the plan.
  emulator::enqueue(handle->stream, [run, plan = std::weak_ptr(plan_)] {
    if (const auto its_plan = plan.lock()) return run(*its_plan);
    std::fprintf(stderr, "emulated GPU: a graph launches a cuDNN plan that was destroyed\n");
    std::abort();
  });
  return {};
}

}  // namespace graph
}  // namespace cudnn_frontend
