#include <gtest/gtest.h>

#include "core/ops/attention.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace tessera {
namespace {

using namespace test;

/// B = 2, T = 6, two of four heads.
class AttentionMaskErrors : public testing::Test {
 protected:
  void expect(std::initializer_list<const char*> facts) const {
    expect_error([&] { attention_forward(qkv.tensor, options, out.tensor, lse.tensor); }, facts);
    expect_error(
        [&] {
          attention_backward(out.tensor, qkv.tensor, out.tensor, lse.tensor, options, dqkv.tensor);
        },
        facts);
  }

  const TestTensor qkv{{2, 6, 6, 8}, DType::f32}, dqkv{{2, 6, 6, 8}, DType::f32};
  const TestTensor out{{2, 6, 2, 8}, DType::f32}, lse{{2, 2, 6}, DType::f32};
  AttentionOptions options = [] {
    AttentionOptions of_rank;
    of_rank.first_head = 2;
    of_rank.total_heads = 4;
    return of_rank;
  }();
};

TEST_F(AttentionMaskErrors, WrongPlaneNamesAcceptedShapes) {
  const TestTensor few_heads({2, 2, 6, 6}, DType::u8), other({6, 7}, DType::f32);
  options.mask.hidden = few_heads.tensor;
  expect({"mask.hidden uint8 (2, 2, 6, 6)", "qkv fp32 (2, 6, 6, 8)", "4 heads", "(T, T) = (6, 6)",
          "(B, 1, T, T) = (2, 1, 6, 6)", "(B, H, T, T) = (2, 4, 6, 6)"});
  options.mask.hidden = {};
  options.mask.additive = other.tensor;
  expect({"mask.additive fp32 (6, 7)", "(T, T) = (6, 6)"});
}

TEST_F(AttentionMaskErrors, WrongPlaneByPositionNamesAcceptedShapes) {
  const TestTensor few_heads({2, 6, 6}, DType::u8), no_square({4, 6, 7}, DType::u8),
      short_plane({1, 5, 5}, DType::u8), fits({4, 7, 7}, DType::u8);
  for (const TestTensor* plane : {&few_heads, &no_square, &short_plane}) {
    options.mask.hidden = plane->tensor;
    expect({"mask.hidden by position must be (1, R, R) or (H, R, R)", "4 heads",
            "at least the 6 positions", to_string(plane->tensor.shape()).c_str()});
  }
  options.mask.hidden = fits.tensor;
  attention_forward(qkv.tensor, options, out.tensor, lse.tensor);
}

TEST_F(AttentionMaskErrors, RefusesWrongDtypes) {
  const TestTensor bytes({6, 6}, DType::u8), floats({6, 6}, DType::f32);
  options.mask.hidden = floats.tensor;
  expect({"mask.hidden must be uint8", "fp32"});
  options.mask.hidden = {};
  options.mask.additive = bytes.tensor;
  expect({"mask.additive must be fp32", "uint8"});
}

TEST_F(AttentionMaskErrors, RefusesLengthsBeyondSequence) {
  const TestTensor lengths = from_ints(std::vector{6, 7}, {2});
  options.mask.lengths = lengths.tensor.slice(0, 1);
  expect({"mask.lengths must have shape (2)", "(1)"});
  if (on_gpu()) return;  // the host does not read a GPU's tensors
  options.mask.lengths = lengths.tensor;
  expect({"mask.lengths[1] is 7", "6 positions"});
  lengths.tensor.data<int32_t>()[1] = -1;
  expect({"mask.lengths[1] is -1"});
}

TEST_F(AttentionMaskErrors, RefusesHiddenKeysOfOtherShape) {
  const TestTensor keys({2, 5}, DType::u8);
  options.mask.hidden_keys = keys.tensor;
  expect({"mask.hidden_keys must have shape (2, 6)", "(2, 5)"});
}

TEST_F(AttentionMaskErrors, RefusesInvalidDocuments) {
  const auto documents = [&](std::vector<int32_t> ends, std::initializer_list<const char*> facts) {
    const TestTensor tensor = from_ints(ends, {static_cast<int64_t>(ends.size())});
    options.mask.documents = tensor.tensor;
    expect(facts);
  };
  const TestTensor square({2, 2}, DType::i32);
  options.mask.documents = square.tensor;
  expect({"mask.documents must have shape (S + 1)", "(2, 2)"});
  if (on_gpu()) return;  // the host does not read a GPU's tensors
  documents({0, 4, 3, 12}, {"must ascend", "mask.documents[1] is 4", "[2] is 3"});
  documents({0, 6, 11}, {"end with the 12 rows of 2 sequences of 6", "from 0 to 11"});
  documents({1, 6, 12}, {"begin with 0", "from 1 to 12"});
  documents({0, 4, 8, 12}, {"document 1", "rows 4 to 8", "over the end of a sequence of 6"});
}

TEST_F(AttentionMaskErrors, RefusesWrongDocumentLength) {
  const TestTensor documents = from_ints(std::vector{0, 3, 6, 9, 12}, {5});
  options.mask.documents = documents.tensor;
  options.mask.document_length = 3;
  attention_forward(qkv.tensor, options, out.tensor, lse.tensor);
  options.mask.document_length = 4;
  expect({"mask.document_length is 4", "all 4 documents of 12 rows"});
  options.mask.document_length = 3;
  if (test::on_gpu()) return;  // the host does not read a GPU's tensors
  documents.tensor.data<int32_t>()[1] = 2;
  expect({"mask.document_length is 3", "document 0 has 2 rows"});
}

TEST_F(AttentionMaskErrors, RefusesNumbersOutOfRange) {
  options.mask.window = -1;
  expect({"mask.window", "-1"});
  options.mask.window = 0;
  options.mask.dilation = 0;
  expect({"mask.dilation must be 1 (none) or more, but is 0"});
  options.mask.dilation = 1;
  options.mask.prefix = -2;
  expect({"mask.prefix", "-2"});
  options.mask.prefix = 0;
  options.mask.global_tokens = -3;
  expect({"mask.global_tokens", "-3"});
  options.mask.global_tokens = 0;
  options.total_heads = 3;
  expect({"heads [2, 4)", "3 heads of all ranks"});
}

TEST_F(AttentionMaskErrors, RefusesMasksThatNeedPadding) {
  const TestTensor padded_rows = from_ints(std::vector{0, 1, 2, 8, 9, 10}, {6});
  const TestTensor documents = from_ints(std::vector{0, 3, 6}, {3});
  const TestTensor keys({1, 6}, DType::u8);
  const Tensor one = qkv.tensor.slice(0, 1), one_out = out.tensor.slice(0, 1),
               one_lse = lse.tensor.slice(0, 1);
  const auto expect_one = [&](std::initializer_list<const char*> facts) {
    expect_error([&] { attention_forward(one, options, one_out, one_lse); }, facts);
  };
  options.padded_rows = {padded_rows.tensor, 8};
  expect_one({"needs mask.documents"});
  options.mask.documents = documents.tensor;
  attention_forward(one, options, one_out, one_lse);
  options.mask.hidden_keys = keys.tensor;
  attention_forward(one, options, one_out, one_lse);
  const TestTensor plane({6, 6}, DType::u8);
  options.mask.hidden = plane.tensor;
  expect_one(
      {"supports documents, causal, window, dilation, prefix, global_tokens, hidden_keys, "
       "hidden_by_position and additive_by_position",
       "the mask is: hidden_keys, documents, hidden, compact"});
  options.mask.hidden = {};
  options.mask.hidden_keys = {};
  expect({"B = 1", "(2, 6, 6, 8)"});
  if (on_gpu()) return;  // the host does not read a GPU's tensors
  options.padded_rows.seq_length = 9;
  expect_one({"padded_rows.index[4] is 9", "document 1", "one sequence of 9"});
  options.padded_rows.seq_length = 8;
  padded_rows.tensor.data<int32_t>()[5] = 11;
  expect_one({"padded_rows.index[5] is 11", "consecutive"});
}

TEST(AttentionUnsupportedReason, NamesUnsupportedMasks) {
  MaskKinds kinds;
  kinds.causal = kinds.window = kinds.lengths = kinds.hidden_keys = true;
  kinds.documents = kinds.hidden = kinds.additive = true;
  EXPECT_EQ(attention_unsupported_reason(kinds), std::nullopt);
  kinds.compact = true;
  EXPECT_NE(attention_unsupported_reason(kinds), std::nullopt);
  kinds.lengths = kinds.hidden = kinds.additive = false;
  kinds.hidden_by_position = kinds.additive_by_position = true;
  EXPECT_EQ(attention_unsupported_reason(kinds), std::nullopt);
  MaskKinds decoded;
  decoded.hidden_by_position = decoded.additive_by_position = true;
  decoded.causal = decoded.window = decoded.dilation = decoded.global_tokens = true;
  EXPECT_EQ(attention_decode_unsupported_reason(decoded), std::nullopt);
  decoded.lengths = true;
  EXPECT_NE(attention_decode_unsupported_reason(decoded)->find(
                "causal, window, dilation, global_tokens, lengths, hidden_by_position, "
                "additive_by_position"),
            std::string::npos);
  EXPECT_EQ(to_string(MaskKinds{}), "none");
}

}  // namespace
}  // namespace tessera
