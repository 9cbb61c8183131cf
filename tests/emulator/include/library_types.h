#pragma once

/// The types of numbers that CUDA's libraries are told of, as far as they are used here.
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;
