#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "launch/checkpoint/checkpoint.h"
#include "launch/checkpoint/format/step_folder.h"
#include "launch/checkpoint/save/save.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera::testing_checkpoint {

namespace fs = std::filesystem;

using test::TestFolder;

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Changes one byte of a file in place.
inline void write_byte(const fs::path& path, size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at)).put(byte);
}

using test::error_of;

/// A global tensor of the test model, sharded along `dim` over the tensor ranks.
struct GlobalTensor {
  std::string name;
  std::string kind;
  DType dtype;
  Shape shape;
  int dim;
};

/// One tensor of each sort: sharded along dim 0, 1 of 2 and 1 of 3, replicated, and a scalar, in
/// all dtypes that a run saves. Only one extent is divisible by 2 or 3.
inline std::vector<GlobalTensor> test_model() {
  return {{"embed.weight", kModelKind, DType::f32, {7, 5}, 0},
          {"attn.qkv.weight", kModelKind, DType::f32, {3, 5, 4}, 1},
          {"attn.out.weight", kModelKind, DType::bf16, {5, 11}, 1},
          {"norm.weight", kModelKind, DType::f32, {13}, Shard::kReplicated},
          {"optimizer.exp_avg.embed.weight", kOptimizerKind, DType::f32, {7, 5}, 0},
          {"optimizer.count", kOptimizerKind, DType::i64, {}, Shard::kReplicated}};
}

/// A value that is exact in every dtype and differs between neighbors, tensors and `version`s.
inline int64_t value_at(const GlobalTensor& tensor, int64_t index, int64_t version) {
  return (index * 7 + static_cast<int64_t>(tensor.name.size()) * 3 + version) % 128;
}

inline void set_value(Tensor tensor, int64_t index, int64_t value) {
  const auto i = static_cast<size_t>(index);
  switch (tensor.dtype()) {
    case DType::f32:
      tensor.span<float>()[i] = static_cast<float>(value);
      return;
    case DType::bf16:
      tensor.span<bfloat16>()[i] = bfloat16(static_cast<float>(value));
      return;
    case DType::f64:
      tensor.span<double>()[i] = static_cast<double>(value);
      return;
    case DType::i32:
      tensor.span<int32_t>()[i] = static_cast<int32_t>(value);
      return;
    case DType::i64:
      tensor.span<int64_t>()[i] = value;
      return;
    case DType::u8:
      tensor.span<uint8_t>()[i] = static_cast<uint8_t>(value);
      return;
  }
}

/// The shard of tensor rank `rank` of `ranks`. All shards have the same size, rounded up, so the
/// last may be smaller or empty, as with vocabularies.
inline Shard shard_of(const GlobalTensor& tensor, int rank, int ranks) {
  if (tensor.dim == Shard::kReplicated) return {};
  const int64_t extent = tensor.shape[tensor.dim];
  const int64_t piece = (extent + ranks - 1) / ranks;
  const int64_t begin = std::min(extent, piece * rank);
  return {tensor.dim, {begin, std::min(extent, begin + piece)}};
}

/// Calls `body(local_index, global_index)` for each element of a piece, both row-major.
template <typename Body>
void for_each_element(const Box& box, const Shape& global_shape, Body&& body) {
  for (int64_t local = 0; local < box.shape.numel(); ++local) {
    int64_t rest = local, global = 0, stride = 1;
    for (int dim = global_shape.rank() - 1; dim >= 0; --dim) {
      global += (box.offset[dim] + rest % box.shape[dim]) * stride;
      rest /= box.shape[dim];
      stride *= global_shape[dim];
    }
    body(local, global);
  }
}

/// The local tensors of one rank, with their memory.
struct RankTensors {
  std::deque<OwnedTensor> memory;
  std::vector<LocalTensor> tensors;
};

/// The part of the test model that one rank writes: world rank r is tensor rank r % tensor_ranks.
/// Ranks with the same piece take turns.
inline RankTensors rank_tensors(const std::vector<GlobalTensor>& model, int world_rank,
                                int tensor_ranks, int64_t version = 0, int data_ranks = 1) {
  RankTensors own;
  int turn = -1;
  for (const GlobalTensor& tensor : model) {
    ++turn;
    const int tensor_rank = world_rank % tensor_ranks;
    if (world_rank / tensor_ranks % data_ranks != turn % data_ranks) continue;
    if (tensor.dim == Shard::kReplicated && tensor_rank != turn % tensor_ranks) continue;
    const Shard shard = shard_of(tensor, tensor_rank, tensor_ranks);
    const Box box = box_of(shard, tensor.shape);
    const Tensor data = own.memory.emplace_back(box.shape, tensor.dtype).tensor;
    for_each_element(box, tensor.shape, [&](int64_t local, int64_t global) {
      set_value(data, local, value_at(tensor, global, version));
    });
    own.tensors.push_back({tensor.name, tensor.kind, tensor.shape, box, data});
  }
  return own;
}

/// The attachment of the test model at a step.
inline std::string attachment_at(int64_t step) {
  return "{\"step\":" + std::to_string(step) + "}\n";
}

inline SaveRequest request_for(const fs::path& run_dir, int64_t step, const RankTensors& own) {
  SaveRequest request;
  request.run_dir = run_dir;
  request.step = step;
  request.samples = step * 8;
  request.model = {{"kind", "gpt"}, {"hidden_size", 5}};
  request.attachments = {{"tokenizer.json", attachment_at(step)}};
  request.tensors = own.tensors;
  return request;
}

/// Saves the test model on tensor × data thread ranks; returns the step's folder.
inline fs::path save_on_threads(const fs::path& run_dir, int64_t step, int tensor_ranks,
                                int data_ranks, int64_t version = 0, int keep = 0) {
  run_thread_ranks(tensor_ranks * data_ranks, [&](Communicator& world) {
    const RankTensors own =
        rank_tensors(test_model(), world.rank(), tensor_ranks, version, data_ranks);
    SaveRequest request = request_for(run_dir, step, own);
    request.keep = keep;
    save_checkpoint(request, world);
  });
  return checkpoints_folder(run_dir) / step_name(step);
}

/// Saves the test model on this thread alone.
inline SavedCheckpoint save_alone(const fs::path& run_dir, int64_t step, int64_t version = 0,
                                  int keep = 0, const SaveObserver& observer = {}) {
  const RankTensors own = rank_tensors(test_model(), 0, 1, version);
  SaveRequest request = request_for(run_dir, step, own);
  request.keep = keep;
  request.observer = observer;
  const auto self = make_self_communicator();
  return save_checkpoint(request, *self);
}

/// Expects that tensor rank `rank` of `ranks` reads its pieces of the test model and the attachment
/// from a checkpoint.
inline void expect_piece(const fs::path& step_folder, int rank, int ranks, int64_t version = 0) {
  Checkpoint checkpoint = Checkpoint::open(step_folder);
  EXPECT_EQ(checkpoint.attachment("tokenizer.json"), attachment_at(checkpoint.manifest().step));
  for (const GlobalTensor& tensor : test_model()) {
    const Shard shard = shard_of(tensor, rank, ranks);
    const Box box = box_of(shard, tensor.shape);
    const OwnedTensor found(box.shape, tensor.dtype);
    const OwnedTensor expected(box.shape, tensor.dtype);
    for_each_element(box, tensor.shape, [&](int64_t local, int64_t global) {
      set_value(expected.tensor, local, value_at(tensor, global, version));
    });
    checkpoint.read(tensor.name, tensor.shape, shard, found.tensor);
    const auto bytes_of = [](const Tensor& t) {
      return std::string(static_cast<const char*>(t.raw()), t.numel() == 0 ? 0 : t.bytes());
    };
    EXPECT_EQ(bytes_of(found.tensor), bytes_of(expected.tensor)) << tensor.name << " on " << rank;
  }
}

/// The names in a folder, sorted.
inline std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    names.push_back(item.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tessera::testing_checkpoint
