#include "launch/tokenizers/sentencepiece/protobuf.h"

#include <bit>
#include <limits>

#include "core/error.h"

namespace tessera {
namespace {

void append_raw_varint(std::string& message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>(value | 0x80);
  message += static_cast<char>(value);
}

void append_tag(std::string& message, uint32_t number, ProtobufField::Type type) {
  append_raw_varint(message, uint64_t{number} << 3 | static_cast<uint64_t>(type));
}

void require_type(const ProtobufField& field, ProtobufField::Type type, const std::string& where) {
  require(field.type == type, "{}: field {} has wire type {} instead of {}", where, field.number,
          static_cast<int>(field.type), static_cast<int>(type));
}

}  // namespace

bool ProtobufField::as_bool(const std::string& where) const {
  const int32_t number_value = as_int(where);
  require(number_value == 0 || number_value == 1, "{}: field {} is {} instead of 0 or 1", where,
          number, number_value);
  return number_value == 1;
}

int32_t ProtobufField::as_int(const std::string& where) const {
  require_type(*this, Type::varint, where);
  const auto wide = static_cast<int64_t>(value);
  require(
      std::numeric_limits<int32_t>::min() <= wide && wide <= std::numeric_limits<int32_t>::max(),
      "{}: field {} is {}, which has more than 32 bits", where, number, wide);
  return static_cast<int32_t>(wide);
}

float ProtobufField::as_float(const std::string& where) const {
  require_type(*this, Type::fixed32, where);
  return std::bit_cast<float>(static_cast<uint32_t>(value));
}

std::string_view ProtobufField::as_bytes(const std::string& where) const {
  require_type(*this, Type::bytes, where);
  return bytes;
}

bool ProtobufReader::next(ProtobufField& field) {
  if (rest_.empty()) return false;
  const uint64_t tag = varint();
  require(tag >> 3 != 0 && tag >> 3 < (uint64_t{1} << 29), "{}: is damaged: there is no field {}",
          where_, tag >> 3);
  field = {static_cast<uint32_t>(tag >> 3), static_cast<ProtobufField::Type>(tag & 7), 0, {}};
  switch (field.type) {
    case ProtobufField::Type::varint:
      field.value = varint();
      return true;
    case ProtobufField::Type::bytes:
      field.bytes = take(varint());
      return true;
    case ProtobufField::Type::fixed32:
    case ProtobufField::Type::fixed64: {
      const std::string_view raw = take(field.type == ProtobufField::Type::fixed32 ? 4 : 8);
      for (size_t i = raw.size(); i-- > 0;) {
        field.value = field.value << 8 | static_cast<unsigned char>(raw[i]);
      }
      return true;
    }
  }
  fail("{}: is damaged: field {} has wire type {}", where_, field.number, tag & 7);
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  fail("{}: is damaged: a number has more than 10 bytes", where_);
}

std::string_view ProtobufReader::take(uint64_t count) {
  require(count <= rest_.size(), "{}: is damaged: it ends {} bytes too early", where_,
          count - rest_.size());
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

void append_varint(std::string& message, uint32_t number, uint64_t value) {
  append_tag(message, number, ProtobufField::Type::varint);
  append_raw_varint(message, value);
}

void append_float(std::string& message, uint32_t number, float value) {
  append_tag(message, number, ProtobufField::Type::fixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) message += static_cast<char>(bits >> shift & 0xFF);
}

void append_bytes(std::string& message, uint32_t number, std::string_view bytes) {
  append_tag(message, number, ProtobufField::Type::bytes);
  append_raw_varint(message, bytes.size());
  message += bytes;
}

}  // namespace tessera
