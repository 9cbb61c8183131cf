#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Datasets, or files of texts, that a run uses together, with their weights. Usually there is one.
struct DataBlend {
  struct Part {
    std::string path;
    double weight = 1.0;  ///< its share is weight / sum of all weights

    bool operator==(const Part&) const = default;
  };
  std::vector<Part> parts;

  DataBlend() = default;
  explicit DataBlend(std::vector<Part> several) : parts(std::move(several)) {}
  /// One path; implicit because a path alone is a blend.
  DataBlend(std::convertible_to<std::string> auto&& path)  // NOLINT: see above
      : parts{{std::forward<decltype(path)>(path), 1.0}} {}

  bool operator==(const DataBlend&) const = default;
};

}  // namespace tessera
