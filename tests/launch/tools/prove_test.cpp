#include "launch/tools/prove/prove.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "core/memory.h"
#include "core/ops/elementwise.h"
#include "launch/tools/prove/shrink.h"
#include "models/architecture.h"
#include "models/attention_plane.h"
#include "parallel/communicators/thread/thread_communicator.h"
#include "tests/support/runs/small_runs.h"
#include "tests/support/source_folder.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::SmallKind;
using testing::HasSubstr;

/// What goes wrong in every group of several ranks.
enum class Fault {
  none,
  no_sum,             ///< all-reduces of sums do nothing
  no_max,             ///< all-reduces of maxima do nothing
  max_for_sum,        ///< all-reduces take maxima instead of sums
  one_sum_is_lost,    ///< one all-reduce of many does nothing
  no_gather,          ///< all-gathers leave what was there
  swapped_gather,     ///< all-gathers put the last rank's part first
  no_reduce_scatter,  ///< reduce-scatters return this rank's part unsummed
};

/// A communicator with a fault, whose groups have it, too.
class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(Communicator& inner, Fault fault)
      : Communicator(inner.rank(), inner.size()), inner_(inner), fault_(fault) {}
  FaultyCommunicator(std::unique_ptr<Communicator> owned, Fault fault)
      : Communicator(owned->rank(), owned->size()),
        owned_(std::move(owned)),
        inner_(*owned_),
        fault_(fault) {}

  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<FaultyCommunicator>(inner_.split(color, key), fault_);
  }
  std::string name() const override { return "faulty"; }

 private:
  static Pending done() { return std::make_unique<CompletedCollective>(); }
  bool faulty(Fault fault, const Tensor& tensor) const {
    return fault_ == fault && size() > 1 && is_floating(tensor.dtype());
  }

  Pending do_all_reduce(Tensor tensor, ReduceOp op, Wait wait) override {
    if (op == ReduceOp::sum) {
      if (faulty(Fault::no_sum, tensor)) return done();
      if (faulty(Fault::one_sum_is_lost, tensor) && sums_++ == 9) return done();
      if (faulty(Fault::max_for_sum, tensor)) op = ReduceOp::max;
    } else if (faulty(Fault::no_max, tensor)) {
      return done();
    }
    return inner_.all_reduce_async(tensor, op, wait);
  }
  Pending do_all_gather(const Tensor& input, Tensor output, Wait wait) override {
    if (faulty(Fault::no_gather, output)) return done();
    if (faulty(Fault::swapped_gather, output)) {
      inner_.all_gather(input, output);
      const int64_t part = output.numel() / size();
      const Tensor flat = output.view({output.numel()});
      const OwnedTensor last({part}, output.dtype());
      copy(flat.slice(output.numel() - part, output.numel()), last.tensor);
      copy(flat.slice(0, part), flat.slice(output.numel() - part, output.numel()));
      copy(last.tensor, flat.slice(0, part));
      return done();
    }
    return inner_.all_gather_async(input, output, wait);
  }
  Pending do_reduce_scatter(const Tensor& input, Tensor output, ReduceOp op, Wait wait) override {
    if (!faulty(Fault::no_reduce_scatter, output)) {
      return inner_.reduce_scatter_async(input, output, op, wait);
    }
    const int64_t part = output.numel();
    const Tensor mine = input.view({input.numel()}).slice(rank() * part, (rank() + 1) * part);
    if (!is_own_part(output, input)) copy(mine, output.view({part}));
    return done();
  }
  void do_broadcast(Tensor tensor, int root) override { inner_.broadcast(tensor, root); }
  Pending do_exchange(std::span<const Message> messages, Wait wait) override {
    return inner_.exchange_async(messages, wait);
  }
  void do_barrier() override { inner_.barrier(); }

  static bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  Fault fault_;
  int64_t sums_ = 0;
};

class Prove : public testing::Test {
 protected:
  Certificate prove(SmallKind kind, int ranks, Fault fault = Fault::none) const {
    const test::TestFolder folder;
    ProveOptions options{.ranks = ranks, .folder = folder.path()};
    options.run_ranks = [=](int count, const std::function<void(Communicator&)>& body) {
      run_thread_ranks(count, [&](Communicator& world) {
        FaultyCommunicator faulty(world, fault);
        body(faulty);
      });
    };
    RunConfig config = test::small_run(folder_, "run", kind);
    if (kind == SmallKind::adapters) config.checkpoint.from = "base";  // which nothing reads
    config.run.precision = DType::bf16;
    return tessera::prove(config, options);
  }

  test::TestFolder folder_;
};

TEST_F(Prove, SmallRunsPass) {
  // Other kinds have their parts.
  const std::set<SmallKind> left_out = {SmallKind::gpt_documents, SmallKind::qwen3,
                                        SmallKind::bert_blend, SmallKind::embeddings_cls,
                                        SmallKind::mean_classifier};
  for (const SmallKind kind : test::kSmallKinds) {
    if (left_out.count(kind) > 0) continue;
    SCOPED_TRACE(to_string(kind));
    const Certificate found = prove(kind, 2);
    EXPECT_EQ(found.failures(), 0) << to_json(found).dump(2);
    EXPECT_GT(found.masks.hidden, 0);
    EXPECT_THAT(to_string(found), HasSubstr("checks passed"));
  }
}

// Without their data and checkpoints.
TEST_F(Prove, EveryPublishedConfigurationPasses) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(test::source_folder() / "configs")) {
    SCOPED_TRACE(file.path().filename());
    const test::TestFolder folder;
    const ConfigToProve loaded =
        load_to_prove(file.path(), {fmt::format("run.dir={}", folder / "run")}, folder.path());
    const Certificate found = tessera::prove(loaded.config, {.ranks = 1, .folder = folder.path()});
    EXPECT_EQ(found.failures(), 0) << to_json(found).dump(2);
    EXPECT_LT(found.last_loss, found.first_loss);
    ++count;
  }
  EXPECT_GE(count, 12);
}

// The prepared dataset of a blend needs nothing, and made-up files have columns of their own.
TEST_F(Prove, MakesUpMissingFiles) {
  const std::string path = folder_ / "missing.yaml";
  std::ofstream(path) << "data: {train: {prepared: 1, texts.csv: 1}, columns: {prompt: question}}\n"
                         "model: {seq_length: 16, num_layers: 1}\ntrain: {steps: 2}\n";
  const ConfigToProve loaded =
      load_to_prove(path, {"run.dir=" + (folder_ / "run")}, folder_.path());
  EXPECT_THAT(loaded.made_up, testing::ElementsAre(HasSubstr("texts.csv is missing")));
}

TEST_F(Prove, FindsFaultsOfCommunication) {
  for (const auto& [fault, kind] :
       {std::pair(Fault::no_sum, SmallKind::gpt), std::pair(Fault::no_max, SmallKind::gpt),
        std::pair(Fault::max_for_sum, SmallKind::gpt),
        std::pair(Fault::one_sum_is_lost, SmallKind::gpt),
        std::pair(Fault::no_gather, SmallKind::gpt),
        std::pair(Fault::swapped_gather, SmallKind::gpt),
        std::pair(Fault::no_reduce_scatter, SmallKind::gpt)}) {
    const Certificate found = prove(kind, 2, fault);
    EXPECT_GT(found.failures(), 0) << "fault " << static_cast<int>(fault);
    EXPECT_THAT(to_string(found), HasSubstr("FAILED"));
  }
}

TEST_F(Prove, LeavesOutPatternsOfBlocksThatTheSmallModelLacks) {
  RunConfig config = test::small_run(folder_, "run", SmallKind::adapters);
  config.checkpoint.from = "base";
  config.model.num_layers = 12;
  config.model.lora_targets = {"blocks.11.*", "*.qkv"};
  config.optimizer.frozen = {"blocks.10.*", "blocks.0.mlp.down.lora_a"};
  config.optimizer.lr_scales = {{"blocks.9.*", 0.5}, {"*.lora_b", 2.0}};
  const ShrunkRun run = shrink(config, folder_.path());
  EXPECT_EQ(run.config.model.lora_targets, std::vector<std::string>{"*.qkv"});
  EXPECT_EQ(run.config.optimizer.lr_scales.size(), 1u);
  EXPECT_EQ(run.config.optimizer.frozen.size(), 0u) << "mlp.down has no adapter any more";
  EXPECT_THAT(run.left_out, testing::Contains(HasSubstr("no pattern \"blocks.11.*\" here")));
}

TEST_F(Prove, KeepsWhatIsOdd) {
  RunConfig config = test::small_run(folder_, "run");
  config.model = test::gpt2_model();
  config.model.num_layers = 48;
  config.model.num_heads = 25;
  config.model.hidden_size = 1600;
  config.model.attention_window = 256;
  config.model.window_pattern = "GLLL";
  const ShrunkRun shrunk = shrink(config, folder_.path());
  const ModelConfig& small = shrunk.config.model;
  EXPECT_EQ(small.num_heads, 25);
  EXPECT_EQ(small.vocab_size % 2, 1);
  EXPECT_LT(small.vocab_size, 200);
  EXPECT_EQ(small.num_layers, 2);
  EXPECT_FALSE(small.is_local(0));
  EXPECT_TRUE(small.is_local(1));
  EXPECT_LT(small.attention_window, small.seq_length);
  EXPECT_EQ(layouts_to_prove(shrunk.config, 4).size(), 25U);
}

// A model whose masks hide less than claimed leaks.
TEST(Leaks, AreFound) {
  for (const ModelKind kind : {ModelKind::gpt2, ModelKind::encoder_decoder}) {
    SCOPED_TRACE(architecture_of(kind).name);
    ModelConfig wide;
    apply_preset(wide, kind);
    wide.num_layers = 2;
    wide.hidden_size = 16;
    wide.seq_length = 16;
    wide.vocab_size = 11;
    ModelConfig narrow = wide;
    narrow.attention_window = 3;
    for (const bool sequence : {false, true}) {
      EXPECT_EQ(find_leaks(wide, wide, 2, sequence).leak_count, 0);
      EXPECT_EQ(find_leaks(narrow, narrow, 2, sequence).leak_count, 0);
      const LeakReport report = find_leaks(wide, narrow, 2, sequence);
      EXPECT_GT(report.leak_count, 0);
      EXPECT_THAT(to_string(report.leaks.front()), HasSubstr("which its masks hide"));
    }
    if (traits_of(wide).source_length > 0) continue;
    ModelConfig both = wide;
    apply_preset(both, ModelKind::bert);
    EXPECT_GT(find_leaks(both, wide, 1, false).leak_count, 0);
  }
}

TEST(Leaks, AreFoundThroughTargetsThatAreNotHidden) {
  ModelConfig model = preset(ModelKind::bert);
  model.num_layers = 2;
  model.hidden_size = 16;
  model.seq_length = 16;
  model.vocab_size = 11;
  for (const bool sequence : {false, true}) {
    EXPECT_EQ(find_leaks(model, model, 2, sequence, {.hidden = true, .claimed = true}).leak_count,
              0);
    EXPECT_GT(find_leaks(model, model, 2, sequence, {.hidden = false, .claimed = true}).leak_count,
              0);
  }
}

// Each part of a mask: a model without what it shows leaks to one with it, or the other way round.
TEST(Leaks, AreFoundThroughPatterns) {
  ModelConfig causal = preset(ModelKind::gpt2);
  causal.num_layers = 1;
  causal.hidden_size = 16;
  causal.seq_length = 16;
  causal.vocab_size = 11;
  causal.attention_window = 3;
  ModelConfig both = causal;
  apply_preset(both, ModelKind::bert);
  both.attention_window = 3;
  struct Case {
    const char* name;
    ModelConfig less;
    int64_t ModelConfig::*part;
    int64_t value;
  };
  for (const Case& c : {Case{"prefix", causal, &ModelConfig::attention_prefix, 4},
                        Case{"attention sinks", causal, &ModelConfig::global_tokens, 2},
                        Case{"global tokens", both, &ModelConfig::global_tokens, 2},
                        Case{"dilation", both, &ModelConfig::attention_dilation, 2}}) {
    SCOPED_TRACE(c.name);
    ModelConfig more = c.less;
    more.*c.part = c.value;
    for (const bool sequence : {false, true}) {
      EXPECT_EQ(find_leaks(more, more, 2, sequence).leak_count, 0);
      EXPECT_GT(find_leaks(more, c.less, 2, sequence).leak_count, 0);
    }
  }
}

// A plane with all heads hides what none of them sees.
TEST(Leaks, AreFoundThroughPlanes) {
  ModelConfig model = preset(ModelKind::gpt2);
  model.num_layers = 1;
  model.hidden_size = 16;
  model.seq_length = 16;
  model.vocab_size = 11;
  ModelConfig masked = model;
  const auto plane = std::make_shared<AttentionPlane>();
  plane->values = OwnedTensor({model.num_heads, 16, 16}, DType::u8);
  for (int64_t i = 0; i < plane->values.tensor.numel(); ++i) {
    const int64_t h = i / 256, t = i / 16 % 16, s = i % 16;
    plane->values.tensor.data<uint8_t>()[i] = t != s && (t + s) % 3 != 0 && (t + h) % 5 != s % 5;
  }
  masked.attention_mask_file = "mask.safetensors";
  masked.attention_plane = plane;
  for (const bool sequence : {false, true}) {
    EXPECT_EQ(find_leaks(masked, masked, 2, sequence).leak_count, 0);
    EXPECT_GT(find_leaks(model, masked, 2, sequence).leak_count, 0);
  }
}

}  // namespace
}  // namespace tessera
