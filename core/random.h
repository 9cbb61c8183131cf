#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/range.h"
#include "core/tensor.h"

namespace tessera {

/// The purpose of random numbers. Each has its own streams, so no bits are used twice.
enum class RandomPurpose : uint8_t {
  init = 1,
  embedding_dropout,
  attention_dropout,
  attention_output_dropout,
  mlp_dropout,
  sampling,
  masking,
  sentence_pairs,
  pooled_dropout,
  stochastic_rounding,
  cudnn_seeds,
  span_corruption,
  cross_attention_dropout,
  cross_attention_output_dropout,
  mlp_activation_dropout,
  final_dropout,
  augmentation,
  adapter_dropout,
  moment_rounding,
};

/// Names one stream of random bits. Random numbers are stateless: the number of an element is a
/// function of the key and of its global index. It has the same bits on every layout of ranks, and
/// a checkpoint need not save any state.
struct RandomKey {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::init;
  uint32_t id = 0;    ///< the layer (24 bits)
  uint32_t step = 0;  ///< the optimizer step; of `sampling`, the number of the text
};

/// Four 32-bit words of Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
/// 3", SC11) with key = seed and counter = (block, id | purpose << 24, step). Element i of a stream
/// is word i % 4 of block i / 4.
std::array<uint32_t, 4> philox(const RandomKey& key, uint64_t block);

/// Philox4x32-10 as in the paper.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The random word of one element.
uint32_t random_bits(const RandomKey& key, uint64_t element);

/// Uniform in [0, 1) with 24 bits.
float random_uniform(const RandomKey& key, uint64_t element);

/// Writes the words of elements [first, first + n) to `out`. Vectorized; `first` may be any
/// element.
void random_bits(const RandomKey& key, uint64_t first, int64_t n, uint32_t* out);

/// The random byte of one element: byte element % 4, counted from the lowest, of word element / 4.
/// It costs a quarter of a word. A stream's bytes are its words in other units, so a stream that is
/// drawn as bytes must not also be drawn as words.
uint8_t random_byte(const RandomKey& key, uint64_t element);

/// Writes the bytes of elements [first, first + n) to `out`. `first` may be any element.
void random_bytes(const RandomKey& key, uint64_t first, int64_t n, uint8_t* out);

/// Derives a seed for a name. Streams of different names are independent.
uint64_t seed_for(uint64_t seed, std::string_view name);

/// Writes stddev × a standard normal number for elements [first, first + n). Box–Muller on words 0
/// and 1 of block i gives element i (not the packing of random_bits), so splitting the range does
/// not change the bits.
void random_normal(const RandomKey& key, float stddev, uint64_t first, int64_t n, float* out);

}  // namespace tessera
