#include "launch/train/stored_algorithms.h"

#include <filesystem>
#include <span>

#include "core/error.h"
#include "launch/support/files/checksum.h"
#include "launch/support/files/staged_file.h"
#include "launch/support/text/base64.h"
#include "launch/support/text/json.h"

namespace tessera {
namespace {

constexpr const char* kFormat = "tessera product algorithms 1";

std::string checksum_of_json(const Json& json) {
  const std::string text = json.dump();
  return checksum_of(std::as_bytes(std::span(text)));
}

}  // namespace

StoredAlgorithms read_algorithms(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const Json file = read_json_file(path, size_t{16} << 20);
  const JsonObject top(file, path);
  require(top.text("format") == kFormat, "{}: the format is {}, but must be {}", path,
          quote(top.text("format")), kFormat);
  const Json& gpus = top.object("gpus");
  require(top.text("checksum") == checksum_of_json(gpus), "{}: the checksum is wrong", path);
  StoredAlgorithms stored;
  for (const auto& [gpu, products] : gpus.items()) {
    const JsonObject of_gpu(products, path);
    for (const auto& entry : products.items()) {
      stored[gpu][entry.key()] = from_base64(of_gpu.text(entry.key().c_str()), path);
    }
  }
  return stored;
}

void write_algorithms(const std::string& path, const StoredAlgorithms& algorithms) {
  Json gpus = Json::object();
  for (const auto& [gpu, products] : algorithms) {
    gpus[gpu] = Json::object();
    for (const auto& [product, algorithm] : products) gpus[gpu][product] = to_base64(algorithm);
  }
  const Json file = {{"format", kFormat}, {"checksum", checksum_of_json(gpus)}, {"gpus", gpus}};
  StagedFile staged(path, Replace::own);
  staged.write(file.dump(1) + "\n");
  staged.close();
  staged.publish();
}

}  // namespace tessera
