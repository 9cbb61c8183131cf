# find_package(Tessera) finds the libraries of an installation (docs/install.md): Tessera::train, which is for training,
# and those that it uses.
include(CMakeFindDependencyMacro)
set(MPI_CXX_SKIP_MPICXX TRUE)
find_dependency(MPI COMPONENTS CXX)
find_dependency(OpenMP COMPONENTS CXX)
find_dependency(Threads)
find_dependency(fmt CONFIG)
find_dependency(yaml-cpp CONFIG)
find_dependency(ICU COMPONENTS uc)
find_dependency(ZLIB)
find_dependency(PNG)
find_dependency(JPEG)
include(${CMAKE_CURRENT_LIST_DIR}/TesseraDependencies.cmake) # of this build
include(${CMAKE_CURRENT_LIST_DIR}/TesseraTargets.cmake)
