# A package runs on many processors. What computes (core, parallel, models) is built for several instruction sets,
# each linked into a program of its own, a variant; bin/tessera (launch/cli/launcher.cpp) starts the one that fits.
#
#     bin/tessera                             the launcher
#     libexec/tessera/x86-64-v3/tessera       AVX2; the target `tessera`
#     libexec/tessera/x86-64-v4/tessera       AVX-512
#     libexec/tessera/x86-64-v4-bf16/tessera  AVX-512 with its bf16 instructions
#
# A variant has the libraries of launch/ in common with the others, and the same compiler flags as a build for one
# machine.
set(variants x86-64-v4 x86-64-v4-bf16)
set(variant_options_x86-64-v4 -march=x86-64-v4)
set(variant_options_x86-64-v4-bf16 -march=x86-64-v4 -mavx512bf16)

# variant_libraries(RESULT TARGET VARIANT): what the target links, in this variant.
function(variant_libraries result target variant)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  list(TRANSFORM libraries REPLACE "^tessera_(core|parallel|models)$" "\\0_${variant}")
  set(${result} ${libraries} PARENT_SCOPE)
endfunction()

foreach(variant ${variants})
  # Linked last, so that its -march follows, and replaces, the one of tessera_flags.
  add_library(tessera_${variant} INTERFACE)
  target_compile_options(tessera_${variant} INTERFACE ${variant_options_${variant}})
  target_compile_definitions(tessera_${variant} INTERFACE TESSERA_VARIANT="${variant}")
  foreach(name core parallel models)
    get_target_property(sources tessera_${name} SOURCES)
    get_target_property(options tessera_${name} COMPILE_OPTIONS)
    variant_libraries(libraries tessera_${name} ${variant})
    add_library(tessera_${name}_${variant} STATIC ${sources})
    target_link_libraries(tessera_${name}_${variant} PUBLIC ${libraries} tessera_${variant})
    if(options)
      target_compile_options(tessera_${name}_${variant} PRIVATE ${options})
    endif()
  endforeach()
  add_executable(tessera_program_${variant} $<TARGET_OBJECTS:tessera>)
  # The files of launch/'s libraries, because the targets would bring the libraries of the first variant.
  set(outside)
  foreach(library ${launch_libraries})
    target_link_libraries(tessera_program_${variant} PRIVATE $<TARGET_FILE:${library}>)
    get_target_property(libraries ${library} LINK_LIBRARIES)
    list(FILTER libraries EXCLUDE REGEX "^tessera_")
    list(APPEND outside ${libraries})
  endforeach()
  target_link_libraries(tessera_program_${variant} PRIVATE ${outside} tessera_models_${variant})
  add_dependencies(tessera_program_${variant} tessera_cli)
  set(variant_program_${variant} tessera_program_${variant})
endforeach()
set(variant_program_x86-64-v3 tessera)
foreach(variant x86-64-v3 ${variants})
  set_target_properties(${variant_program_${variant}} PROPERTIES
    OUTPUT_NAME tessera LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/libexec/tessera/${variant}
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../../../lib/tessera")
  # An RPATH, unlike a RUNPATH, also finds the libraries of libraries. mpicxx adds libraries that nothing needs.
  target_link_options(${variant_program_${variant}} PRIVATE -Wl,--disable-new-dtags,--as-needed)
endforeach()
set_target_properties(tessera_launcher PROPERTIES OUTPUT_NAME tessera RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
