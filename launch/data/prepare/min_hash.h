#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

/// Signatures of texts whose equal values estimate how alike the texts are (Broder, "On the
/// resemblance and containment of documents", 1997). A text is the set of its shingles, which are 5
/// successive words; words are what white space separates. A signature has the least hash of any
/// shingle under each of at most 128 hash functions. The share of equal values in two signatures
/// estimates the Jaccard similarity of the sets, with a standard deviation below 0.05.
class MinHash {
 public:
  /// Divides the values into bands, so that two texts of similarity `threshold` have all values of
  /// one of them in common with a probability of at least 95%, and others as rarely as that allows.
  /// `threshold` is from 0.3 to 1.
  explicit MinHash(double threshold);

  double threshold() const { return threshold_; }
  size_t bands() const { return bands_; }
  size_t rows() const { return rows_; }  ///< values of a band
  /// Number of values of a signature.
  size_t size() const { return bands_ * rows_; }

  /// A value that no shingle has lowered yet.
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  /// Lowers the values of a signature to those of the shingles of `text`. A text of 1 to 4 words is
  /// one shingle. Thread-safe.
  void add(std::string_view text, std::span<uint32_t> signature) const;

 private:
  double threshold_;
  size_t bands_ = 1;
  size_t rows_ = 1;
  std::vector<uint64_t> factors_;  ///< of each hash function
  std::vector<uint64_t> summands_;
};

}  // namespace tessera
