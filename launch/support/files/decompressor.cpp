#include "launch/support/files/decompressor.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace tessera {
namespace {

class GzipDecompressor final : public Decompressor {
 public:
  GzipDecompressor() {
    constexpr int kGzipOnly = 16;
    require(inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK, "zlib is out of memory");
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;

  size_t decompress(std::string_view& input, std::span<char> out) override {
    if (between_members_ && !start_member(input)) return 0;
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(std::min(input.size(), kMost));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min(out.size(), kMost));
    const uInt given = stream_.avail_in, room = stream_.avail_out;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    input.remove_prefix(given - stream_.avail_in);
    // Z_BUF_ERROR: no input was consumed.
    require(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR, "gzip: {}", reason(code));
    between_members_ = code == Z_STREAM_END;
    return room - stream_.avail_out;
  }

  bool may_end() const override { return between_members_; }

 private:
  /// Returns whether `input` starts another member. Zeros after the last member, as on tapes, are
  /// not a member.
  bool start_member(std::string_view& input) {
    const size_t zeros = std::min(input.find_first_not_of('\0'), input.size());
    padded_ = padded_ || zeros > 0;
    input.remove_prefix(zeros);
    if (input.empty()) return false;
    require(!padded_, "gzip: unexpected bytes follow the compressed data");
    inflateReset(&stream_);
    return true;
  }

  const char* reason(int code) const { return stream_.msg != nullptr ? stream_.msg : zError(code); }

  z_stream stream_ = {};
  bool between_members_ = false;
  bool padded_ = false;
};

class ZstdDecompressor final : public Decompressor {
 public:
  ZstdDecompressor() : stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, "zstd is out of memory");
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  size_t decompress(std::string_view& input, std::span<char> out) override {
    if (between_frames_ && input.empty()) return 0;
    ZSTD_inBuffer in = {input.data(), input.size(), 0};
    ZSTD_outBuffer to = {out.data(), out.size(), 0};
    const size_t code = ZSTD_decompressStream(stream_.get(), &to, &in);
    input.remove_prefix(in.pos);
    require(ZSTD_isError(code) == 0, "zstd: {}", ZSTD_getErrorName(code));
    between_frames_ = code == 0;
    return to.pos;
  }

  bool may_end() const override { return between_frames_; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  /// Windows of 2 GiB, the largest, which `zstd --long=31` writes. Only what was decompressed is
  /// touched.
  static constexpr int kMaxWindowLog = 31;

  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool between_frames_ = false;
};

/// Matches a data frame or a skippable frame, "5?2A4D18" (RFC 8878, 3.1.2).
bool is_zstd(std::string_view start) {
  return start == "\x28\xB5\x2F\xFD" ||
         ((static_cast<unsigned char>(start[0]) & 0xF0) == 0x50 && start.ends_with("\x2A\x4D\x18"));
}

}  // namespace

std::unique_ptr<Decompressor> make_decompressor(std::string_view start) {
  if (start.starts_with("\x1F\x8B")) return std::make_unique<GzipDecompressor>();
  if (start.size() >= kMagicBytes && is_zstd(start.substr(0, kMagicBytes))) {
    return std::make_unique<ZstdDecompressor>();
  }
  return nullptr;
}

}  // namespace tessera
