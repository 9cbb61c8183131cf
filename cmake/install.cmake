# `cmake --install BUILD` and, for builds that run on other machines, packages by `cpack`: a Debian package, which
# takes libraries from the distribution, and a tarball to unpack anywhere, which brings them.
#
# Components: `program`; `documents`, which only the Python wheel lacks; `site`, what Debian has elsewhere; `debian`, what
# only Debian requires; `libraries`, for the tarball and the wheel. The last two are not installed by default.
include(GNUInstallDirs)

if(variants) # a package; its launcher expects these two folders
  install(TARGETS tessera_launcher RUNTIME DESTINATION bin COMPONENT program)
  foreach(variant x86-64-v3 ${variants})
    install(TARGETS ${variant_program_${variant}} RUNTIME_DEPENDENCY_SET libraries
      RUNTIME DESTINATION libexec/tessera/${variant} COMPONENT program)
  endforeach()
  # As auditwheel does for wheels: all but the C and C++ libraries. MPI belongs to the machine.
  install(RUNTIME_DEPENDENCY_SET libraries
    PRE_EXCLUDE_REGEXES "^libmpi" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so" "^ld-linux"
    LIBRARY DESTINATION lib/tessera COMPONENT libraries EXCLUDE_FROM_ALL)
  # Each library has one file, because a wheel has no links, and its license beside it.
  install(CODE "
    set(folder \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/tessera)
    file(GLOB names RELATIVE \${folder} \${folder}/*.so.*)
    foreach(name \${names})
      if(IS_SYMLINK \${folder}/\${name})
        file(READ_SYMLINK \${folder}/\${name} file)
        file(RENAME \${folder}/\${file} \${folder}/\${name})
        execute_process(COMMAND dpkg-query --search */\${name} OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
        string(REGEX MATCH \"^[^:]+\" owner \${owner})
        file(MAKE_DIRECTORY \${folder}/licenses)
        configure_file(/usr/share/doc/\${owner}/copyright \${folder}/licenses/\${owner} COPYONLY)
      endif()
    endforeach()" COMPONENT libraries EXCLUDE_FROM_ALL)
else()
  install(TARGETS tessera RUNTIME COMPONENT program)
endif()
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents PATTERN "*.py" EXCLUDE)
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT documents PATTERN "*.py" EXCLUDE)

# The program writes its own completion scripts and manual pages. A variable in this code must not have the name of a
# component.
set(written ${CMAKE_BINARY_DIR}/written)
install(CODE "
  set(executable \"$<TARGET_FILE:tessera>\")
  set(written \"${written}\")
  function(write file)
    execute_process(COMMAND \${executable} \${ARGN} OUTPUT_FILE \${written}/\${file} COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  file(REMOVE_RECURSE \${written})
  file(MAKE_DIRECTORY \${written}/man1 \${written}/man5)
  write(completion.bash completion bash)
  write(completion.zsh completion zsh)
  write(man1/tessera.1 man)
  write(man5/tessera.yaml.5 man yaml)
  execute_process(COMMAND \${executable} completion words -- \"\" OUTPUT_VARIABLE commands COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL \"[^\\n]+\" commands \"\${commands}\")
  foreach(command \${commands})
    write(man1/tessera-\${command}.1 man \${command})
  endforeach()
  file(GLOB pages \${written}/man?/*)
  execute_process(COMMAND gzip -9n \${pages} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT documents)
install(FILES ${written}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT documents RENAME tessera)
install(FILES ${written}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  COMPONENT site RENAME _tessera)
install(DIRECTORY ${written}/man1 ${written}/man5 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT documents)

# A program built for this machine's processor (TESSERA_NATIVE) may not run on another.
if(NOT variants)
  return()
endif()

# What Debian requires of a package.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(maintainers "Tessera maintainers <maintainers@tessera.invalid>")
file(WRITE ${CMAKE_BINARY_DIR}/debian/changelog
  "tessera (${PROJECT_VERSION}) stable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- ${maintainers}  ${date}\n")
execute_process(COMMAND gzip -9nf ${CMAKE_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${CMAKE_BINARY_DIR}/debian/copyright
  "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: Tessera\n\n"
  "Files: *\nCopyright: 2026 Tessera maintainers\nLicense: Apache-2.0\n"
  " On Debian systems, the text of the license is in /usr/share/common-licenses/Apache-2.0.\n")
install(FILES ${CMAKE_BINARY_DIR}/debian/changelog.gz ${CMAKE_BINARY_DIR}/debian/copyright
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${written}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
  COMPONENT debian EXCLUDE_FROM_ALL RENAME _tessera)

# A Python wheel: the target `wheel`, which is not part of `all`.
set(wheel ${CMAKE_BINARY_DIR}/wheel)
add_custom_target(wheel
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${wheel}
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_SOURCE_DIR}/launch/python ${wheel}
  COMMAND ${CMAKE_COMMAND} --install . --strip --component program --prefix ${wheel}/tessera/prefix
  COMMAND ${CMAKE_COMMAND} --install . --component libraries --prefix ${wheel}/tessera/prefix
  COMMAND python3 -m pip wheel --quiet --no-deps --wheel-dir . ${wheel}
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
foreach(variant x86-64-v3 ${variants})
  add_dependencies(wheel tessera_launcher ${variant_program_${variant}})
endforeach()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/cpack.cmake) # which components a package has
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_FILE_NAME tessera-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_PACKAGE_VENDOR "Tessera maintainers")
set(CPACK_PACKAGE_CONTACT ${maintainers})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed training of transformers under MPI")
set(CPACK_PACKAGE_DESCRIPTION "Trains transformers on many ranks, tensor and data parallel, with
sharded checkpoints that load on any layout of ranks. Needs an x86-64
processor with AVX2, and uses AVX-512 and AMX.")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)          # dpkg-shlibdeps finds the packages of shared libraries
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)   # mpirun, on which no shared library depends
include(CPack)
