#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The part of the Protocol Buffers wire format that SentencePiece models need:
// https://protobuf.dev/programming-guides/encoding/

namespace tessera {

/// One undecoded field of a message.
struct ProtobufField {
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint32_t number = 0;
  Type type = Type::varint;
  uint64_t value = 0;      ///< of a varint, fixed64 or fixed32
  std::string_view bytes;  ///< of bytes, a string or a message; points into the input

  // Return the value as a type; throw, starting with `where`, if it has another type.
  bool as_bool(const std::string& where) const;
  int32_t as_int(const std::string& where) const;
  float as_float(const std::string& where) const;
  std::string_view as_bytes(const std::string& where) const;
};

/// Reads the fields of an untrusted message in order. Does not allocate.
class ProtobufReader {
 public:
  /// `where` names the message in errors; both must outlive this.
  ProtobufReader(std::string_view message, const std::string& where)
      : rest_(message), where_(where) {}

  /// Returns false at the end. Throws if the message ends within a field or is malformed.
  bool next(ProtobufField& field);

 private:
  uint64_t varint();
  std::string_view take(uint64_t count);

  std::string_view rest_;
  const std::string& where_;
};

// Append a field to a message.
void append_varint(std::string& message, uint32_t number, uint64_t value);
void append_float(std::string& message, uint32_t number, float value);
void append_bytes(std::string& message, uint32_t number, std::string_view bytes);

}  // namespace tessera
