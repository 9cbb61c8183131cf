#include "launch/checkpoint/attention_mask_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "launch/checkpoint/format/safetensors.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/save/save.h"
#include "parallel/communicators/communicator.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_folder.h"

namespace tessera {
namespace {

using test::expect_error;

constexpr int64_t kLength = 3, kHeads = 2;

/// A mask of 3 positions that hides, besides the future, position 0 from 1.
constexpr char kHidden[] = "\0\1\1\1\0\1\0\0\0";
constexpr char kVisible[] = "\1\0\0\0\1\0\1\1\1";

ModelConfig small_model() {
  ModelConfig model;
  model.seq_length = kLength;
  model.num_heads = kHeads;
  model.num_layers = 2;
  model.vocab_size = 11;
  return model;
}

std::string bytes_of(const char* text, size_t size) { return {text, size}; }
std::string hidden() { return bytes_of(kHidden, 9); }
std::string visible() { return bytes_of(kVisible, 9); }

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

class AttentionMaskFile : public testing::Test {
 protected:
  /// A file with one tensor, as other programs write it.
  void write(const std::string& name, const std::string& dtype, const std::string& shape,
             const std::string& data) const {
    write_header(fmt::format(R"({{"{}":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})", name,
                             dtype, shape, data.size()),
                 data);
  }
  void write_header(const std::string& header, const std::string& data) const {
    const uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << data;
  }

  ModelConfig loaded(ModelConfig model = small_model()) const {
    model.attention_mask_file = path_;
    load_attention_mask(model);
    return model;
  }
  void expect_refused(std::initializer_list<const char*> facts) const {
    expect_error([&] { loaded(); }, facts);
    expect_error([&] { loaded(); }, {"model.attention_mask_file: ", path_.c_str()});
  }

  test::TestFolder folder_;
  std::string path_ = folder_ / "mask.safetensors";
};

TEST_F(AttentionMaskFile, NameOfTensorSaysWhatIsHidden) {
  struct Case {
    const char *name, *dtype, *shape;
    std::string data;
  };
  std::string checksum;
  for (const Case& c :
       {Case{"hidden", "BOOL", "[3,3]", hidden()}, Case{"hidden", "U8", "[1,3,3]", hidden()},
        Case{"visible", "BOOL", "[3,3]", visible()}, Case{"visible", "U8", "[3,3]", visible()}}) {
    write(c.name, c.dtype, c.shape, c.data);
    const ModelConfig model = loaded();
    const AttentionPlane& plane = *model.attention_plane;
    EXPECT_EQ(plane.heads(), 1);
    EXPECT_FALSE(plane.is_additive());
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t s = 0; s < kLength; ++s) {
        EXPECT_EQ(plane.hides(1, t, s), s > t || (t == 1 && s == 0)) << t << " " << s;
      }
    }
    if (checksum.empty()) checksum = plane.checksum;
    EXPECT_EQ(plane.checksum, checksum) << c.name;
  }
  const float inf = std::numeric_limits<float>::infinity();
  write("additive", "F32", "[2,3,3]",
        floats({0, -inf, 0, 1, 2, 3, 0, 0, -1, 0, 0, 0, -inf, 0, 0, 0, 0, 0}));
  const ModelConfig model = loaded();
  EXPECT_TRUE(model.attention_plane->is_additive());
  EXPECT_TRUE(model.attention_plane->hides(0, 0, 1));
  EXPECT_FALSE(model.attention_plane->hides(0, 1, 0));
  EXPECT_TRUE(model.attention_plane->hides(1, 1, 0));
  EXPECT_NE(model.attention_plane->checksum, checksum);
}

TEST_F(AttentionMaskFile, RefusesOtherFilesAndTensors) {
  expect_refused({"No such file"});
  std::ofstream(path_) << "a text that is no mask";
  expect_refused({"not a safetensors file"});
  write_header("{}", "");
  expect_refused(
      {"has 0 tensors: a mask file has one tensor: hidden or visible, of bool or uint8, "
       "or additive, of fp32"});
  write_header(R"({"hidden":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("visible":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
               "xx");
  expect_refused({"has 2 tensors"});
  write("mask", "BOOL", "[3,3]", hidden());
  expect_refused({"has a tensor \"mask\"", "hidden or visible"});
  write("hidden", "F32", "[3,3]", floats({0, 0, 0, 0, 0, 0, 0, 0, 0}));
  expect_refused({"hidden is F32", "of bool or uint8"});
  write("additive", "U8", "[3,3]", hidden());
  expect_refused({"additive is U8", "additive, of fp32"});
  write("additive", "F16", "[3,3]", hidden() + hidden());
  expect_refused({"additive is F16"});
  for (const char* shape : {"[9]", "[1,9]", "[9,1,1]", "[1,1,3,3]"}) {
    write("hidden", "U8", shape, hidden());
    expect_refused({"hidden has the shape", "must be (T, T) = (3, 3) or (H, T, T) = (2, 3, 3)",
                    "model.seq_length, 3", "model.num_heads, 2"});
  }
  write("hidden", "BOOL", "[3,3]", hidden() + "\1");
  expect_refused({"BOOL (3, 3) cannot be stored in 10 bytes"});
}

TEST_F(AttentionMaskFile, RefusesValues) {
  std::string bytes = hidden();
  bytes[7] = 2;
  write("hidden", "U8", "[3,3]", bytes);
  expect_refused({"element (2, 1) of hidden is 2, but must be 0 or 1"});
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    write("additive", "F32", "[2,3,3]",
          floats({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bad, 0, 0, 0, 0}));
    expect_refused({"element (1, 1, 1) of additive is", "finite number, or -inf to hide"});
  }
}

TEST_F(AttentionMaskFile, RefusesQueriesThatSeeNothing) {
  write("hidden", "U8", "[3,3]", bytes_of("\0\0\0\1\1\0\0\0\0", 9));
  expect_refused({"in layer 0, the query at position 1 sees no key at all"});
  ModelConfig encoder = small_model();
  encoder.kind = ModelKind::bert;
  EXPECT_NO_THROW(loaded(encoder));  // position 1 sees 2
  // Only the second layer has a window.
  write("hidden", "U8", "[2,3,3]", bytes_of("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\1", 18));
  EXPECT_NO_THROW(loaded());
  ModelConfig local = small_model();
  local.attention_window = 2;
  local.window_pattern = "GL";
  expect_error([&] { loaded(local); }, {"in layer 1, head 1, the query at position 2"});
}

TEST_F(AttentionMaskFile, TravelsInCheckpoints) {
  write("visible", "BOOL", "[3,3]", visible());
  const ModelConfig model = loaded();
  const auto world = make_self_communicator();
  const auto save = [&](const std::string& run, const std::string& attachment) {
    SaveRequest request;
    request.run_dir = folder_ / run;
    request.step = 1;
    request.model = architecture_json(model);
    if (!attachment.empty()) request.attachments[kAttentionMaskAttachment] = attachment;
    return save_checkpoint(request, *world).path;
  };
  const Checkpoint checkpoint =
      Checkpoint::open(save("run", attention_mask_attachment(*model.attention_plane)));
  std::filesystem::remove(path_);
  const ModelConfig back = model_of(checkpoint);
  EXPECT_EQ(back.attention_mask_file, (checkpoint.path() / kAttentionMaskAttachment).string());
  EXPECT_EQ(back.attention_plane->checksum, model.attention_plane->checksum);
  EXPECT_EQ(architecture_json(back), architecture_json(model));

  expect_error([&] { model_of(Checkpoint::open(save("none", ""))); }, {kAttentionMaskAttachment});
  AttentionPlane other;
  other.values = OwnedTensor({1, kLength, kLength}, DType::u8);
  expect_error([&] { model_of(Checkpoint::open(save("other", attention_mask_attachment(other)))); },
               {"has the checksum xxh3-64:", "was trained with the mask",
                model.attention_plane->checksum.c_str()});
}

}  // namespace
}  // namespace tessera
