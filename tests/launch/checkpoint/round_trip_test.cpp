#include <set>

#include "launch/checkpoint/find.h"
#include "launch/checkpoint/same_model.h"
#include "launch/checkpoint/verify.h"
#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Layout {
  int tensor_ranks;
  int data_ranks;
};

// With 3 and 5 tensor ranks some pieces are smaller or empty.
constexpr Layout kLayouts[] = {{1, 1}, {2, 1}, {3, 1}, {5, 1}, {1, 3}, {2, 2}};

TEST(CheckpointRoundTrip, AnyLayoutLoadsAnyLayout) {
  TestFolder run;
  int64_t step = 0;
  for (const Layout& saved : kLayouts) {
    const auto folder = save_on_threads(run.path(), ++step, saved.tensor_ranks, saved.data_ranks);
    EXPECT_THAT(verify_checkpoint(folder).problems, IsEmpty());
    for (const int ranks : {1, 2, 3, 5}) {
      for (int rank = 0; rank < ranks; ++rank) expect_piece(folder, rank, ranks);
    }
  }
}

TEST(CheckpointRoundTrip, ManifestKeepsRunMetadata) {
  TestFolder run;
  const RankTensors own = rank_tensors(test_model(), 0, 1);
  SaveRequest request = request_for(run.path(), 123456789012, own);
  request.extra = {{"seed", 7}, {"loss", 2.5}};
  const auto self = make_self_communicator();
  const auto saved = save_checkpoint(request, *self);
  EXPECT_EQ(saved.path.filename(), "step_123456789012");
  const Checkpoint checkpoint = Checkpoint::open(saved.path);
  EXPECT_EQ(checkpoint.manifest().step, request.step);
  EXPECT_EQ(checkpoint.manifest().samples, request.samples);
  EXPECT_EQ(checkpoint.manifest().model, request.model);
  EXPECT_EQ(checkpoint.manifest().extra, request.extra);
  EXPECT_EQ(newest_intact_checkpoint(run.path(), {}), saved.path);
}

TEST(CheckpointSave, OnlyRanksWithTensorsWriteFiles) {
  TestFolder run;
  run_thread_ranks(3, [&](Communicator& world) {
    const std::vector<GlobalTensor> model = {{"w", kModelKind, DType::f32, {2, 3}, 0}};
    const RankTensors own = rank_tensors(model, world.rank(), 3);
    save_checkpoint(request_for(run.path(), 7, own), world);
  });
  EXPECT_THAT(names_in(run.path() / "checkpoints" / "step_00000007"),
              ElementsAre("manifest.json", "model_00000.safetensors", "model_00001.safetensors",
                          "tokenizer.json"));
}

// Saves on two ranks, whose requests `change` may corrupt. Returns the error that both throw.
std::string error_of_save(const fs::path& run_dir,
                          const std::function<void(int, SaveRequest&)>& change) {
  std::string errors[2];
  run_thread_ranks(2, [&](Communicator& world) {
    const RankTensors own = rank_tensors(test_model(), world.rank(), 2);
    SaveRequest request = request_for(run_dir, 1, own);
    change(world.rank(), request);
    errors[world.rank()] = error_of([&] { save_checkpoint(request, world); });
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_FALSE(fs::exists(run_dir / "checkpoints" / "step_00000001"));
  return errors[0];
}

TEST(CheckpointSave, MismatchedRanksAllThrowSameError) {
  TestFolder run;
  const auto error = [&](const std::function<void(LocalTensor&)>& change) {
    return error_of_save(run.path(), [&](int rank, SaveRequest& request) {
      if (rank == 1) change(request.tensors[0]);
    });
  };
  const OwnedTensor half({4, 5}, DType::bf16), more({4, 5}, DType::f32), other({3, 6}, DType::f32);
  EXPECT_THAT(error([&](LocalTensor& local) { local.name = "other"; }),
              HasSubstr("of the 35 elements"));
  EXPECT_THAT(error([&](LocalTensor& local) { local.kind = kOptimizerKind; }),
              HasSubstr("embed.weight is fp32 (7, 5) of kind model on rank 0, but fp32 (7, 5) of "
                        "kind optimizer on rank 1"));
  EXPECT_THAT(error([&](LocalTensor& local) { local.kind = "weights"; }),
              AllOf(HasSubstr("rank 1"), HasSubstr("but is \"weights\"")));
  EXPECT_THAT(error([&](LocalTensor& local) { local.data = other.tensor; }),
              HasSubstr("embed.weight must have shape (3, 5), but is fp32 (3, 6)"));
  EXPECT_THAT(error([&](LocalTensor& local) {
                local.box = {{3, 0}, {4, 5}};
                local.data = more.tensor;
              }),
              HasSubstr("more than the 35 elements"));
  EXPECT_THAT(error([&](LocalTensor& local) {
                local.box = {{3, 0}, {4, 5}};
                local.data = half.tensor;
              }),
              HasSubstr("bf16 (7, 5)"));
  EXPECT_THAT(error([&](LocalTensor& local) { local.name = "norm.weight"; }),
              HasSubstr("norm.weight is given twice"));
  EXPECT_THAT(error([&](LocalTensor& local) { local.name = "\xff"; }), HasSubstr("UTF-8"));
}

TEST(CheckpointRead, ErrorsNameTensorAndBothShapes) {
  TestFolder run;
  Checkpoint checkpoint = Checkpoint::open(save_alone(run.path(), 3).path);
  const OwnedTensor out({7, 5}, DType::f32);
  EXPECT_TRUE(checkpoint.has("embed.weight"));
  EXPECT_FALSE(checkpoint.has("head.weight"));
  EXPECT_THAT(error_of([&] { checkpoint.read("head.weight", {}, out.tensor); }),
              AllOf(HasSubstr("step_00000003"), HasSubstr("no tensor \"head.weight\"")));
  EXPECT_THAT(error_of([&] {
                checkpoint.read("embed.weight", {8, 5}, {}, out.tensor);
              }),
              AllOf(HasSubstr("(7, 5)"), HasSubstr("(8, 5)")));
  EXPECT_THAT(error_of([&] { checkpoint.read("norm.weight", {}, out.tensor); }),
              AllOf(HasSubstr("(13)"), HasSubstr("fp32 (7, 5)")));
  EXPECT_THAT(error_of([&] {
                checkpoint.read("embed.weight", {0, {3, 8}}, out.tensor);
              }),
              AllOf(HasSubstr("(7, 5)"), HasSubstr("[3, 8)")));
  const OwnedTensor ints({7, 5}, DType::i32);
  EXPECT_THAT(error_of([&] { checkpoint.read("embed.weight", {}, ints.tensor); }),
              AllOf(HasSubstr("stored as fp32"), HasSubstr("not as int32")));
}

TEST(CheckpointRead, ReadsBf16AsFp32) {
  TestFolder run;
  const GlobalTensor tensor = test_model()[2];
  ASSERT_EQ(tensor.dtype, DType::bf16);
  Checkpoint checkpoint = Checkpoint::open(save_on_threads(run.path(), 3, 3, 1));
  const OwnedTensor out(tensor.shape, DType::f32);
  checkpoint.read(tensor.name, {}, out.tensor);
  for (int64_t i = 0; i < tensor.shape.numel(); ++i) {
    EXPECT_EQ(out.tensor.span<float>()[static_cast<size_t>(i)],
              static_cast<float>(value_at(tensor, i, 0)));
  }
}

TEST(CheckpointFind, ResolvesPathToStep) {
  TestFolder run;
  EXPECT_EQ(newest_intact_checkpoint(run.path(), {}), std::nullopt);
  const auto error_of_run = [&] { return error_of([&] { resolve_checkpoint(run.path()); }); };
  EXPECT_THAT(error_of_run(), HasSubstr("pass a run's folder"));
  write_text(run.path() / "config.json", "{}");
  EXPECT_THAT(error_of_run(), HasSubstr("tessera import"));
  write_text(run.path() / "config.yaml", "");
  EXPECT_THAT(error_of_run(), HasSubstr("the run has saved none yet"));
  EXPECT_THAT(error_of([&] { resolve_checkpoint(run.path() / "x"); }), HasSubstr("not a folder"));
  const auto older = save_alone(run.path(), 9).path;
  const auto newer = save_alone(run.path(), 10).path;
  EXPECT_EQ(resolve_checkpoint(run.path()), newer);
  EXPECT_EQ(resolve_checkpoint(run.path() / "checkpoints"), newer);
  EXPECT_EQ(resolve_checkpoint(older), older);
  std::vector<std::optional<fs::path>> found(3);
  run_thread_ranks(3, [&](Communicator& world) {
    found[static_cast<size_t>(world.rank())] = newest_intact_checkpoint(run.path(), {}, world);
    EXPECT_EQ(resolve_checkpoint(run.path(), world), newer);
    EXPECT_THROW(resolve_checkpoint(run.path() / "x", world), Error);
  });
  EXPECT_THAT(found, ElementsAre(newer, newer, newer));
}

TEST(CheckpointFind, NormalizesStepPaths) {
  TestFolder run;
  const fs::path step = save_alone(run.path(), 9).path;
  for (const fs::path& path : {step / "", step / ".", step / "./", step / "../step_00000009/"}) {
    EXPECT_EQ(resolve_checkpoint(path).filename(), step.filename()) << path;
    EXPECT_TRUE(fs::equivalent(resolve_checkpoint(path).parent_path(), step.parent_path())) << path;
  }
  EXPECT_EQ(resolve_checkpoint(run.path() / ""), step);
  EXPECT_EQ(resolve_checkpoint(run.path() / "checkpoints/"), step);
  EXPECT_TRUE(fs::equivalent(resolve_checkpoint(step / ".."), step));
}

TEST(CheckpointModel, NamesEveryDifferenceWithBothValues) {
  const Json saved = {{"kind", "gpt"}, {"hidden_size", 768}, {"rope", {{"base", 1e4}}}};
  EXPECT_NO_THROW(check_same_model(saved, saved, "step", ""));
  Json run = saved;
  run["hidden_size"] = 1024;
  run["rope"]["base"] = 5e5;
  run.erase("kind");
  run["bias"] = true;
  EXPECT_THAT(error_of([&] { check_same_model(saved, run, "RUN/step_00000001", "use another"); }),
              AllOf(HasSubstr("RUN/step_00000001"),
                    HasSubstr("model.hidden_size is 768 in the checkpoint and 1024 in this run"),
                    HasSubstr("model.rope.base is 10000.0 in the checkpoint and 500000.0 in"),
                    HasSubstr("model.kind is \"gpt\" in the checkpoint and missing in this run"),
                    HasSubstr("model.bias is missing in the checkpoint and true in this run")));
}

}  // namespace
}  // namespace tessera
