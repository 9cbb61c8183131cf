# oneDNN's own package file requires OpenCL if the distribution built it with GPU support, so find the
# library and its headers (2.x or 3.x) directly.
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(ONEDNN_LIBRARY dnnl REQUIRED)
add_library(onednn INTERFACE)
target_include_directories(onednn SYSTEM INTERFACE ${ONEDNN_INCLUDE_DIR})
target_link_libraries(onednn INTERFACE ${ONEDNN_LIBRARY})
