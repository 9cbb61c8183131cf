#include "launch/checkpoint/format/safetensors.h"

#include <cstring>

#include "tests/launch/checkpoint/fixture.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using ::testing::HasSubstr;

constexpr DType kAll[] = {DType::f64, DType::i64, DType::f32, DType::i32, DType::bf16, DType::u8};

std::string file_text(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + header + std::string(data_bytes, 'x');
}

class Safetensors : public ::testing::Test {
 protected:
  // A tensor of every dtype, of shape (3, index of the dtype).
  void write() {
    std::vector<SafetensorsEntry> entries;
    std::deque<OwnedTensor> tensors;
    for (const DType dtype : kAll) {
      const Shape shape = {3, static_cast<int64_t>(entries.size())};
      entries.push_back({"tensor." + std::string(to_string(dtype)), dtype, shape});
      const Tensor tensor = tensors.emplace_back(shape, dtype).tensor;
      for (int64_t i = 0; i < tensor.numel(); ++i) set_value(tensor, i, i + 40);
    }
    SafetensorsWriter writer(path_, entries);
    for (const OwnedTensor& tensor : tensors) writer.append(tensor.tensor);
    writer.finish();
  }

  std::string error_of_header(const std::string& header, size_t data_bytes) {
    write_text(path_, file_text(header, data_bytes));
    return error_of([&] { SafetensorsFile file(path_); });
  }

  TestFolder folder_;
  fs::path path_ = folder_.path() / "a.safetensors";
};

TEST_F(Safetensors, RoundTripsEveryDTypeAligned) {
  write();
  const SafetensorsFile file(path_);
  ASSERT_EQ(file.entries().size(), std::size(kAll));
  EXPECT_EQ(file.header().size() % 8, 0u);
  int64_t columns = 0;
  for (const DType dtype : kAll) {
    const auto& entry = file.entry("tensor." + std::string(to_string(dtype)));
    EXPECT_EQ(entry.dtype, dtype);
    EXPECT_EQ(entry.shape, Shape({3, columns++}));
    const auto bytes = file.bytes(entry);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % size_of(dtype), 0u);
    const OwnedTensor expected(entry.shape, dtype);
    for (int64_t i = 0; i < entry.shape.numel(); ++i) set_value(expected.tensor, i, i + 40);
    ASSERT_EQ(bytes.size(), expected.tensor.bytes());
    if (!bytes.empty()) {
      EXPECT_EQ(std::memcmp(bytes.data(), expected.tensor.raw(), bytes.size()), 0);
    }
  }
}

TEST_F(Safetensors, ChangedHeaderByteThrowsOrStaysConsistent) {
  write();
  const std::string good = read_text(path_);
  const size_t header = SafetensorsFile(path_).header().size();
  for (size_t i = 0; i < header; ++i) {
    for (const int flip : {0x01, 0x20, 0x80, 0xff}) {
      write_byte(path_, i, static_cast<char>(good[i] ^ flip));
      try {
        const SafetensorsFile file(path_);
        size_t bytes = 0;
        for (const auto& [name, entry] : file.entries()) bytes += file.bytes(entry).size();
        EXPECT_EQ(bytes, good.size() - header);
      } catch (const Error&) {
      }
    }
    write_byte(path_, i, good[i]);
  }
}

TEST_F(Safetensors, RejectsEveryTruncation) {
  write();
  for (size_t length = fs::file_size(path_); length-- > 0;) {
    fs::resize_file(path_, length);
    EXPECT_THROW(SafetensorsFile file(path_), Error) << length;
  }
}

TEST_F(Safetensors, RejectsHostileHeaders) {
  const auto error = [&](const std::string& header, size_t data_bytes = 8) {
    return error_of_header(header, data_bytes);
  };
  EXPECT_THAT(error("not json"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("must be an object, but is an array"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}})"),
              HasSubstr(R"(tensor "a": the dtype "F8_E4M3" is not known; known are F32)"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})"),
              HasSubstr("fp32 (3) cannot be stored in 8 bytes"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})"),
              HasSubstr("bytes [4, 12) are not within the file's 8"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})"),
              HasSubstr("[8, 0)"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})"),
              HasSubstr("must be an integer from 0 to 2^63 - 1, but is \"-2\""));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}})"),
              HasSubstr("but is \"2.0\""));
  EXPECT_THAT(
      error(R"({"a": {"dtype": "F32", "shape": [18446744073709551617], "data_offsets": [0, 8]}})"),
      HasSubstr("must be an integer"));
  EXPECT_THAT(
      error(
          R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 2], "data_offsets": [0, 8]}})"),
      HasSubstr("cannot be stored in 8 bytes"));
  EXPECT_THAT(
      error(R"({"a": {"dtype": "F32", "shape": [1, 1, 1, 1, 1, 2], "data_offsets": [0, 8]}})"),
      HasSubstr("6 dimensions, but at most 5"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [2]}})"), HasSubstr("no \"data_offsets\""));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})"),
              HasSubstr("end at byte 4 of the data, but the file has 8"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})"),
              HasSubstr("there is a gap"));
  EXPECT_THAT(error(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                        "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})"),
              HasSubstr("they overlap"));
  EXPECT_THAT(error(R"({"a": 1, "a": 2})"), HasSubstr("the key \"a\" twice"));
  EXPECT_THAT(error(std::string(100'000, '[')), HasSubstr("more than 32 levels deep"));
}

TEST_F(Safetensors, RejectsExcessiveHeaderLength) {
  std::string text = file_text("{}", 0);
  text[1] = '\1';
  write_text(path_, text);
  EXPECT_THAT(error_of([&] { SafetensorsFile file(path_); }),
              HasSubstr("a header of 258 bytes, but the file has only 10"));
  text[7] = '\x7f';
  write_text(path_, text);
  EXPECT_THAT(error_of([&] { SafetensorsFile file(path_); }), HasSubstr("at most 100000000"));
}

TEST_F(Safetensors, RejectsNonRegularFiles) {
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder_.path()); }), HasSubstr("is a directory"));
  EXPECT_THAT(error_of([&] { SafetensorsFile file(path_); }), HasSubstr("No such file"));
}

TEST_F(Safetensors, WriterAcceptsOnlyTensorsFromHeader) {
  const std::vector<SafetensorsEntry> entries = {{"a", DType::f32, {2}}, {"b", DType::f32, {2}}};
  {
    SafetensorsWriter writer(path_, entries);
    EXPECT_THROW(writer.append(OwnedTensor({3}, DType::f32).tensor), Error);
    EXPECT_THROW(writer.append(OwnedTensor({2}, DType::i32).tensor), Error);
    writer.append(OwnedTensor({2}, DType::f32).tensor);
    EXPECT_THAT(error_of([&] { writer.finish(); }), HasSubstr("only 1 of the header's 2"));
  }
  EXPECT_THAT(error_of([&] { SafetensorsWriter again(path_, entries); }), HasSubstr("File exists"));
  EXPECT_THAT(error_of([&] {
                SafetensorsWriter twice(folder_.path() / "b", {entries[0], entries[0]});
              }),
              HasSubstr("a tensor named \"a\" already exists"));
}

TEST_F(Safetensors, KeepsForeignDTypesOnRequest) {
  const std::string header =
      R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},)"
      R"("b": {"dtype": "BOOL", "shape": [2, 2], "data_offsets": [4, 8]}})";
  write_text(path_, file_text(header, 8));
  EXPECT_THAT(error_of([&] { SafetensorsFile file(path_); }), HasSubstr("\"BOOL\" is not known"));
  const SafetensorsFile file(path_, ForeignDTypes::keep);
  EXPECT_EQ(file.entries().size(), 1u);
  ASSERT_EQ(file.foreign_entries().count("b"), 1u);
  const ForeignEntry& entry = file.foreign_entries().at("b");
  EXPECT_EQ(entry.dtype, "BOOL");
  EXPECT_EQ(entry.shape, Shape({2, 2}));
  EXPECT_EQ(file.bytes(entry).size(), 4u);
  // Their offsets are checked like those of known dtypes.
  const auto error = [&](const std::string& offsets) {
    write_text(
        path_,
        file_text(R"({"b": {"dtype": "F16", "shape": [2], "data_offsets": )" + offsets + "}}", 8));
    return error_of([&] { SafetensorsFile again(path_, ForeignDTypes::keep); });
  };
  EXPECT_THAT(error("[0, 12]"), HasSubstr("bytes [0, 12) are not within the file's 8"));
  EXPECT_THAT(error("[4, 8]"), HasSubstr("there is a gap"));
  EXPECT_THAT(error("[0, 4]"), HasSubstr("end at byte 4 of the data, but the file has 8"));
}

TEST_F(Safetensors, StoresMetadataInHeader) {
  SafetensorsWriter writer(path_, {{"a", DType::f32, {2}}}, {{"format", "pt"}});
  writer.append(OwnedTensor({2}, DType::f32).tensor);
  writer.finish();
  EXPECT_THAT(read_text(path_), HasSubstr(R"("__metadata__":{"format":"pt"})"));
  EXPECT_EQ(SafetensorsFile(path_).entries().size(), 1u);
}

}  // namespace
}  // namespace tessera
