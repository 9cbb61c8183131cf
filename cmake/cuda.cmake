# Says whether CUDA and NCCL are here. Their code is not in the tree yet: core/ops/cuda and
# parallel/nccl_communicator are its places, and TESSERA_HAS_CUDA will be defined when they are built.
if(NOT TESSERA_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(CUDAToolkit_FOUND AND NCCL_LIBRARY)
    message(STATUS "CUDA ${CUDAToolkit_VERSION} and NCCL found; this version of Tessera has no GPU code yet")
  elseif(TESSERA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_CUDA is ON, but the CUDA toolkit or NCCL was not found: install both or configure with TESSERA_CUDA=OFF")
  else()
    message(STATUS "CUDA or NCCL not found: building for CPU ranks")
  endif()
endif()
