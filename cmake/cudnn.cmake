# Finds cuDNN and cudnn_frontend's headers (`pip install nvidia-cudnn-frontend`): both or neither. Sets
# cudnn_found, CUDNN_LIBRARY, CUDNN_INCLUDE_DIR and CUDNN_FRONTEND_INCLUDE_DIR; the last three may be preset.
set(cudnn_found OFF)

# The wheel installs its headers next to Python's packages and offers no way to query their location.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(python_hints)
if(Python3_FOUND AND NOT CUDNN_FRONTEND_INCLUDE_DIR)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "
import importlib.util, sysconfig
spec = importlib.util.find_spec('cudnn')
for folder in list(spec.submodule_search_locations) if spec else []: print(folder + '/../include')
print(sysconfig.get_path('data') + '/include')
print(sysconfig.get_path('purelib') + '/include')"
    OUTPUT_VARIABLE python_folders OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REPLACE "\n" ";" python_hints "${python_folders}")
endif()
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${python_hints} ${CUDAToolkit_INCLUDE_DIRS})
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})

if(CUDNN_LIBRARY AND CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR AND TARGET CUDA::nvrtc)
  set(cudnn_found ON)
  message(STATUS "cuDNN for attention: ${CUDNN_LIBRARY}, headers of its frontend in ${CUDNN_FRONTEND_INCLUDE_DIR}")
elseif(CUDNN_LIBRARY AND CUDNN_INCLUDE_DIR)
  message(STATUS "cuDNN found, but not cudnn_frontend.h: attention by own kernels. To have cuDNN's, install \
nvidia-cudnn-frontend by pip, or say where its headers are with -DCUDNN_FRONTEND_INCLUDE_DIR=")
else()
  message(STATUS "cuDNN not found: attention by own kernels")
endif()
