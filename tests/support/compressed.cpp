#include "tests/support/compressed.h"

#include <zlib.h>
#include <zstd.h>

#include "core/checked.h"
#include "core/error.h"

namespace tessera::test {

std::string gzipped(std::string_view bytes) {
  constexpr int kGzip = 16;
  z_stream stream = {};
  require(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK,
          "deflateInit2 failed");
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = narrow<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = narrow<uInt>(result.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate failed");
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string zstd_compressed(std::string_view bytes) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress2(context, result.data(), result.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  require(ZSTD_isError(size) == 0, "ZSTD_compress2 failed");
  result.resize(size);
  return result;
}

}  // namespace tessera::test
