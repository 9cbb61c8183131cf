#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "tests/cli/small_run.h"
#include "tests/support/image_files.h"

namespace tessera::test {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kSize = 8;

/// A bright square in one of four corners, its class, on noise.
Pixels corner(int label, std::mt19937& draws) {
  Pixels image{kSize, kSize, 1, {}};
  for (uint32_t i = 0; i < kSize * kSize; ++i) {
    const bool below = i / kSize >= kSize / 2, right = i % kSize >= kSize / 2;
    const bool bright = label == (below ? 2 : 0) + (right ? 1 : 0);
    image.values.push_back(static_cast<uint8_t>(draws() % 128 + (bright ? 100 : 0)));
  }
  return image;
}

class CliImages : public SmallRun {
 protected:
  CliImages() {
    write_set("train", 600, 1);
    write_set("test", 100, 2);
    std::mt19937 draws(3);
    write_png(path("corner.png"), corner(2, draws));
  }

  void write_set(const std::string& name, uint32_t count, uint32_t seed) const {
    std::mt19937 draws(seed);
    std::string images, labels;
    for (uint32_t i = 0; i < count; ++i) {
      const int label = static_cast<int>(draws() % 4);
      const Pixels image = corner(label, draws);
      images.append(image.values.begin(), image.values.end());
      labels += static_cast<char>(label);
    }
    write_text(path(name + "-images-idx3-ubyte"), idx({count, kSize, kSize}, images));
    write_text(path(name + "-labels-idx1-ubyte"), idx({count}, labels));
  }

  Outcome train_vit(int ranks, const Arguments& more) const {
    write_text(path("vit.yaml"),
               fmt::format("run: {{dir: {}}}\n"
                           "model: {{kind: vit, num_layers: 2, hidden_size: 32, num_heads: 4, "
                           "patch_size: 2}}\n"
                           "data: {{train: {}, eval: {}, labels: 'a,b,c,d'}}\n"
                           "batch: {{global: 32}}\ntrain: {{steps: 80}}\n"
                           "optimizer: {{lr: 3.0e-3, warmup_steps: 10}}\n"
                           "checkpoint: {{interval: 40}}\n",
                           path("run").string(), path("train-images-idx3-ubyte").string(),
                           path("test-images-idx3-ubyte").string()));
    Arguments arguments = {"train", path("vit.yaml").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }

  Outcome ask(int ranks, const std::string& command, const Arguments& more) const {
    Arguments arguments = {command, path("run").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(tessera(ranks, arguments));
  }
};

TEST_F(CliImages, LearnsOnTwoLayoutsAndClassifies) {
  expect_success(train_vit(2, {"--set", "parallel.tensor=2", "--stop-at", "40"}));
  expect_success(train_vit(2, {}));
  const std::string config = read_text(path("run/config.yaml"));
  for (const char* derived : {"image_size: 8", "num_channels: 1", "seq_length: 17",
                              "head: classification", "num_labels: 4"}) {
    EXPECT_NE(config.find(derived), std::string::npos) << derived;
  }

  const Outcome evaluated = ask(2, "eval", {"--json"});
  expect_success(evaluated);
  const Json report = Json::parse(evaluated.output.substr(evaluated.output.find('{')));
  EXPECT_EQ(report["document_accuracy"], 1.0);
  EXPECT_EQ(report["recall"], Json({1.0, 1.0, 1.0, 1.0}));
  int64_t right = 0;
  for (size_t i = 0; i < 4; ++i) right += report["confusion"][i][i].get<int64_t>();
  EXPECT_EQ(right, 100);
  const Outcome table = ask(kAlone, "eval", {});
  EXPECT_EQ(table.count("predicted as"), 1u) << table.output;

  const Outcome one = ask(2, "classify", {"--image", path("corner.png").string()});
  expect_success(one);
  EXPECT_LT(one.output.find("%  c"), one.output.find("%  a")) << one.output;
  const std::string predictions = path("predictions.tsv").string();
  expect_success(
      ask(2, "classify",
          {"--input", path("test-images-idx3-ubyte").string(), "--output", predictions}));
  const std::string lines = read_text(predictions);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 101);

  expect_success(ask(2, "attention",
                     {"--image", path("corner.png").string(), "--output", path("look").string()}));
  const Json sequence = Json::parse(read_text(path("look.json")))["sequences"][0];
  EXPECT_EQ(sequence["tokens"][0], "class");
  EXPECT_EQ(sequence["tokens"][16], "3,3");
  EXPECT_NE(read_text(path("look.html")).find("over the image"), std::string::npos);

  for (int time = 0; time < 2; ++time) {  // the second replaces the first
    expect_success(ask(kAlone, "export", {"--to", path("exported").string(), "--overwrite"}));
  }
  expect_success(run(
      tessera(kAlone, {"import", path("exported").string(), "--to", path("imported").string()})));
  const Outcome again = run(tessera(
      kAlone, {"classify", path("imported").string(), "--image", path("corner.png").string()}));
  EXPECT_LT(again.output.find("%  c"), again.output.find("%  a")) << again.output;
}

TEST_F(CliImages, RefusesWhatDoesNotFit) {
  struct Refused {
    Arguments sets, facts;
  };
  const std::string train = path("train-images-idx3-ubyte").string();
  const Refused cases[] = {
      {{"model.patch_size=3"}, {"model.image_size is 8", "model.patch_size is 3", "1, 2, 4"}},
      {{"model.image_size=16"}, {"8 × 8 pixels", "model.image_size is 16"}},
      {{"model.seq_length=20"}, {"model.seq_length is 20", "16 patches and a class token"}},
      {{"model.num_channels=3"}, {"1 channels", "model.num_channels is 3"}},
      {{"model.image_mean=[1, 2]"}, {"model.image_mean has 2 numbers"}},
      {{"data.labels=a,b"}, {"the label of image", "model.num_labels is 2"}},
      {{"model.head=embedding"}, {"model.head is embedding", "classifies images"}},
      {{"augmentation.crop_padding=8"}, {"augmentation.crop_padding is 8"}},
      {{"data.train=" + path("none").string()}, {"none"}},
      {{"data.tokenizer=byte"}, {"data.tokenizer is byte"}},
  };
  for (const auto& [sets, facts] : cases) {
    Arguments arguments;
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    expect_refused(train_vit(2, arguments), facts);
  }
  expect_refused(run_train(kAlone, "text", {"model.patch_size=4"}),
                 {"model.patch_size is set", "does not support it"});
  expect_refused(run_train(kAlone, "text", {"augmentation.horizontal_flip=true"}),
                 {"a key of augmentation is set"});
  expect_success(run_train(kAlone, "text", {"train.steps=2", "optimizer.warmup_steps=1"}));
  const std::pair<std::string, std::string> commands[] = {
      {"classify", "is a GPT-2 that this command cannot use"},
      {"attention", "--image is for models of images, but this model is a GPT-2"}};
  for (const auto& [command, reason] : commands) {
    expect_refused(
        run(tessera(2, {command, path("text").string(), "--image", path("corner.png").string()})),
        {reason});
  }
}

}  // namespace
}  // namespace tessera::test
