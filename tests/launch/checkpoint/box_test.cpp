#include "launch/checkpoint/format/box.h"

#include <algorithm>

#include "launch/checkpoint/find.h"
#include "launch/checkpoint/verify.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The indices in the global tensor of the elements of a box, in its order.
std::vector<int64_t> indices_of(const Box& box, const Shape& global_shape) {
  std::vector<int64_t> indices;
  for_each_element(box, global_shape, [&](int64_t, int64_t global) { indices.push_back(global); });
  return indices;
}

std::vector<int64_t> indices_of(const std::vector<Box>& boxes, const Shape& global_shape) {
  std::vector<int64_t> all;
  for (const Box& box : boxes) {
    const auto some = indices_of(box, global_shape);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(BoxesOfRun, CoverEveryRunInOrder) {
  const std::pair<Box, Shape> cases[] = {{{{}, {}}, {}},
                                         {{{2}, {5}}, {9}},
                                         {{{1, 2}, {4, 3}}, {6, 7}},
                                         {{{0, 1, 2}, {3, 2, 4}}, {3, 5, 6}},
                                         {{{1, 0, 0}, {1, 3, 4}}, {2, 3, 4}}};
  for (const auto& [box, shape] : cases) {
    const std::vector<int64_t> all = indices_of(box, shape);
    const auto n = static_cast<int64_t>(all.size());
    for (int64_t begin = 0; begin <= n; ++begin) {
      for (int64_t end = begin; end <= n; ++end) {
        const std::vector<Box> boxes = boxes_of_run(box, {begin, end});
        EXPECT_EQ(indices_of(boxes, shape),
                  std::vector<int64_t>(all.begin() + begin, all.begin() + end))
            << to_string(box) << " [" << begin << ", " << end << ")";
        EXPECT_LE(boxes.size(), static_cast<size_t>(std::max(1, 2 * shape.rank() - 1)));
      }
    }
  }
}

TEST(BoxesOfRun, AreAsFewAsPossible) {
  const Box box{{0, 8}, {10, 4}};
  EXPECT_THAT(boxes_of_run(box, {0, 40}), ElementsAre(box));
  EXPECT_THAT(boxes_of_run(box, {4, 20}), ElementsAre(Box{{1, 8}, {4, 4}}));
  EXPECT_THAT(boxes_of_run(box, {5, 7}), ElementsAre(Box{{1, 9}, {1, 2}}));
  EXPECT_THAT(boxes_of_run(box, {3, 9}),
              ElementsAre(Box{{0, 11}, {1, 1}}, Box{{1, 8}, {1, 4}}, Box{{2, 8}, {1, 1}}));
  EXPECT_THAT(boxes_of_run({{7, 0}, {0, 4}}, {0, 0}), IsEmpty());
  EXPECT_THAT(error_of([&] {
                boxes_of_run(box, {0, 41});
              }),
              HasSubstr("the box [0:10, 8:12] has no elements [0, 41): it has 40"));
}

/// A rank's pieces if data ranks divide each shard: a run of its elements, as boxes.
std::vector<LocalTensor> runs_of(const RankTensors& own, int data_rank, int data_ranks) {
  std::vector<LocalTensor> pieces;
  for (const LocalTensor& local : own.tensors) {
    const int64_t n = local.data.numel();
    int64_t begin = n * data_rank / data_ranks;
    for (const Box& box : boxes_of_run(local.box, {begin, n * (data_rank + 1) / data_ranks})) {
      const int64_t end = begin + box.shape.numel();
      LocalTensor piece = local;
      piece.box = box;
      piece.data = local.data.view({n}).slice(begin, end).view(box.shape);
      pieces.push_back(piece);
      begin = end;
    }
  }
  return pieces;
}

TEST(CheckpointPieces, LoadOnAnyLayout) {
  TestFolder run;
  int64_t step = 0;
  for (const auto& [tensor_ranks, data_ranks] : {std::pair(1, 2), {2, 3}, {3, 2}, {1, 7}}) {
    ++step;
    run_thread_ranks(tensor_ranks * data_ranks, [&](Communicator& world) {
      const RankTensors own = rank_tensors(test_model(), world.rank(), tensor_ranks);
      SaveRequest request = request_for(run.path(), step, own);
      request.tensors = runs_of(own, world.rank() / tensor_ranks, data_ranks);
      save_checkpoint(request, world);
    });
    const auto folder = newest_intact_checkpoint(run.path(), {}).value();
    EXPECT_THAT(verify_checkpoint(folder).problems, IsEmpty());
    for (const int ranks : {1, 2, 3, 5}) {
      for (int rank = 0; rank < ranks; ++rank) expect_piece(folder, rank, ranks);
    }
  }
}

TEST(CheckpointPieces, AreNamedByTheirBoxes) {
  TestFolder run;
  run_thread_ranks(2, [&](Communicator& world) {
    const RankTensors own = rank_tensors(test_model(), 0, 1);
    SaveRequest request = request_for(run.path(), 1, own);
    request.tensors = runs_of(own, world.rank(), 2);
    save_checkpoint(request, world);
  });
  const Manifest manifest = read_manifest(newest_intact_checkpoint(run.path(), {}).value());
  std::vector<std::string> keys;
  for (const auto& slice : manifest.tensors.at("embed.weight").slices) keys.push_back(slice.key);
  EXPECT_THAT(keys, ElementsAre("embed.weight[0:3, 0:5]", "embed.weight[3:4, 0:2]",
                                "embed.weight[3:4, 2:5]", "embed.weight[4:7, 0:5]"));
  for (const auto& slice : manifest.tensors.at("norm.weight").slices) {
    EXPECT_EQ(slice.key, "norm.weight");
  }
}

TEST(CheckpointPieces, ReadAnyBox) {
  TestFolder run;
  Checkpoint checkpoint = Checkpoint::open(save_on_threads(run.path(), 1, 3, 1));
  const GlobalTensor tensor = test_model()[0];
  const Box box{{1, 2}, {4, 3}};
  const OwnedTensor found(box.shape, DType::f32);
  checkpoint.read_box(tensor.name, tensor.shape, box, found.tensor);
  for_each_element(box, tensor.shape, [&](int64_t local, int64_t global) {
    EXPECT_EQ(found.tensor.span<float>()[static_cast<size_t>(local)],
              static_cast<float>(value_at(tensor, global, 0)));
  });
  EXPECT_THAT(error_of([&] {
                checkpoint.read_box(tensor.name, tensor.shape, {{4, 2}, {4, 3}}, found.tensor);
              }),
              HasSubstr("there is no box [4:8, 2:5] in it"));
  EXPECT_THAT(error_of([&] {
                checkpoint.read_box(tensor.name, {8, 5}, box, found.tensor);
              }),
              HasSubstr("but (8, 5) here"));
}

TEST(CheckpointPieces, RejectBoxOutsideTensor) {
  TestFolder run;
  const RankTensors own = rank_tensors(test_model(), 0, 1);
  SaveRequest request = request_for(run.path(), 1, own);
  request.tensors[0].box.offset.set(0, 1);
  const auto self = make_self_communicator();
  EXPECT_THAT(
      error_of([&] { save_checkpoint(request, *self); }),
      HasSubstr("embed.weight of shape (7, 5) has no box at offset (1, 0) of shape (7, 5)"));
}

}  // namespace
}  // namespace tessera
