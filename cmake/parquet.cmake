# Apache Arrow's Parquet reader, for inputs of `prepare` and other commands that read text: Arrow's own CMake packages or,
# without them, the libraries and headers in Python's pyarrow. Sets parquet_found, and the target `parquet`.
#
# Packages are built without it (preset `package`): Debian has no Arrow, and its libraries have 60 MB.
set(parquet_found OFF)
set(parquet_least 14) # the first version that verifies the checksums of pages

# Sanitizers do not see into Arrow's libraries, and report what they cannot see.
set(parquet_mode ${TESSERA_PARQUET})
if(parquet_mode STREQUAL "AUTO" AND (TESSERA_SANITIZE OR TESSERA_FUZZ))
  set(parquet_mode OFF)
endif()

# find_pyarrow(): sets pyarrow_version, pyarrow_include, pyarrow_arrow and pyarrow_parquet, if Python has pyarrow. Its
# libraries have no names without a version, for which find_library() would look.
function(find_pyarrow)
  if(NOT Python3_FOUND)
    return()
  endif()
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "
import glob, pyarrow
print(pyarrow.cpp_version)
print(pyarrow.get_include())
for name in 'arrow', 'parquet':
    files = [file for folder in pyarrow.get_library_dirs() for file in sorted(glob.glob(f'{folder}/lib{name}.so*'))]
    print(files[0])"
    OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    return()
  endif()
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(name version include arrow parquet)
    list(POP_FRONT lines line)
    set(pyarrow_${name} ${line} PARENT_SCOPE)
  endforeach()
endfunction()

if(NOT parquet_mode STREQUAL "OFF")
  find_package(Parquet CONFIG QUIET)
  if(TARGET Parquet::parquet_shared)
    set(parquet_version ${Parquet_VERSION})
    set(parquet_place ${Parquet_DIR})
    set(parquet_libraries Parquet::parquet_shared)
  else()
    find_package(Python3 QUIET COMPONENTS Interpreter)
    find_pyarrow()
    set(parquet_version ${pyarrow_version})
    set(parquet_place ${pyarrow_include})
    set(parquet_libraries ${pyarrow_parquet} ${pyarrow_arrow})
    set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # an installed program finds the libraries where they are
  endif()
  set(parquet_problem)
  if(NOT parquet_version)
    set(parquet_problem "neither CMake's package Parquet nor Python's pyarrow was found")
  elseif(parquet_version VERSION_LESS parquet_least)
    set(parquet_problem "Arrow is ${parquet_version} in ${parquet_place}, and ${parquet_least} is needed")
  endif()
  if(NOT parquet_problem)
    set(parquet_found ON)
    message(STATUS "Parquet files by Arrow ${parquet_version} in ${parquet_place}")
    add_library(parquet INTERFACE)
    target_link_libraries(parquet INTERFACE ${parquet_libraries})
    target_include_directories(parquet SYSTEM INTERFACE ${pyarrow_include})
  elseif(parquet_mode STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_PARQUET is ON, but ${parquet_problem}: install Arrow's C++ libraries, say where they are \
with Parquet_DIR, or say which Python has pyarrow with Python3_EXECUTABLE")
  else()
    message(STATUS "building without Parquet: ${parquet_problem}")
  endif()
endif()

# tessera_add_parquet(): lets tessera_support read Parquet.
function(tessera_add_parquet)
  if(NOT parquet_found)
    return()
  endif()
  target_link_libraries(tessera_support PRIVATE parquet)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/launch/support/input/parquet_texts.cpp PROPERTIES
    COMPILE_DEFINITIONS TESSERA_HAS_PARQUET)
endfunction()
