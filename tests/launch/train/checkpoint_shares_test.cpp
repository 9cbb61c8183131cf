#include <gtest/gtest.h>

#include <map>

#include "launch/checkpoint/model_state.h"
#include "launch/train/dry_run.h"
#include "parallel/meta_communicator.h"

namespace tessera {
namespace {

struct SharesCase {
  int64_t ranks, tensor, zero, shard;  // 0: all replicas
  bool frozen = false;
};

StepOptions options_of(const SharesCase& layout) {
  StepOptions run;
  run.model.kind = ModelKind::llama;
  run.model.num_layers = 3;
  run.model.hidden_size = 96;
  run.model.num_heads = 6;
  run.model.num_kv_heads = 3;  // two tensor ranks have 2 and 1
  run.model.mlp_size = 96;
  run.model.seq_length = 16;
  run.model.vocab_size = 101;  // padded for several tensor ranks
  run.optimizer.ema_decay = 0.9;
  if (layout.frozen) run.optimizer.frozen = {"blocks.*.attention.*"};
  run.batch.micro = 1;
  run.batch.global = layout.ranks;
  run.parallel.tensor = layout.tensor;
  run.parallel.zero = layout.zero;
  run.parallel.shard = layout.shard;
  return run;
}

/// The tensors that a rank of a layout writes. No memory is allocated.
std::vector<LocalTensor> tensors_of(const SharesCase& layout, int rank) {
  const StepOptions options = options_of(layout);
  MetaGroups meta(layout.ranks, options.parallel.grid_shape(), rank);
  const DryRun run(options, meta);
  std::vector<LocalTensor> tensors = local_tensors(run.state(), meta.groups());
  size_t bytes = 0;
  for (const LocalTensor& tensor : tensors) bytes += tensor.data.bytes();
  EXPECT_LE(bytes, largest_checkpoint_share(run.state(), meta.groups()));
  return tensors;
}

// Without an exchange, each element gets one writer, and no rank writes much more than its share.
TEST(CheckpointShares, TileEveryTensor) {
  for (const SharesCase& layout : {SharesCase{4, 1, 0, 0},
                                   {4, 2, 0, 0},
                                   {8, 2, 1, 0},
                                   {8, 2, 1, 2},
                                   {6, 1, 3, 3},
                                   {6, 3, 2, 0},
                                   {12, 2, 3, 3},
                                   {16, 2, 1, 4},
                                   {8, 2, 0, 0, true},
                                   {8, 2, 1, 2, true},
                                   {8, 2, 3, 2, true}}) {
    SCOPED_TRACE(fmt::format("{} ranks, tensor {}, zero {}, shard {}", layout.ranks, layout.tensor,
                             layout.zero, layout.shard));
    std::map<std::string, std::pair<Shape, std::vector<Box>>> boxes;
    size_t most = 0, all = 0;
    for (int rank = 0; rank < layout.ranks; ++rank) {
      size_t bytes = 0;
      for (const LocalTensor& tensor : tensors_of(layout, rank)) {
        auto& [shape, of_tensor] = boxes[tensor.name];
        shape = tensor.global_shape;
        of_tensor.push_back(tensor.box);
        bytes += tensor.data.bytes();
      }
      most = std::max(most, bytes);
      all += bytes;
    }
    for (const auto& [name, tensor] : boxes) require_tiling(tensor.second, tensor.first, name);
    // Two tensor ranks have 4 and 2 of the heads.
    EXPECT_LE(static_cast<double>(most) * static_cast<double>(layout.ranks),
              (layout.tensor == 2 ? 1.4 : 1.2) * static_cast<double>(all));
  }
}

// A rank's part of a save depends on its shard, and not on how many ranks there are.
TEST(CheckpointShares, AreFewOnManyRanks) {
  const size_t of_few = tensors_of({8, 1, 3, 0}, 5).size();
  for (const int rank : {0, 517, 1023}) {
    EXPECT_LE(tensors_of({1024, 1, 3, 0}, rank).size(), of_few);
    EXPECT_LE(tensors_of({1024, 1, 3, 8}, rank).size(), of_few);
  }
}

}  // namespace
}  // namespace tessera
