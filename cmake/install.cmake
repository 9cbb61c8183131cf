# `cmake --install BUILD` and, for builds that run on other machines, a Debian package by `cpack`.
include(GNUInstallDirs)

install(TARGETS tessera RUNTIME)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs configs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "*.py" EXCLUDE)

# The program writes its own completion scripts and manual pages.
install(CODE "
  set(program \"${CMAKE_BINARY_DIR}/tessera\")
  set(written \"${CMAKE_BINARY_DIR}/written\")
  function(write file)
    execute_process(COMMAND \${program} \${ARGN} OUTPUT_FILE \${written}/\${file} COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  file(REMOVE_RECURSE \${written})
  file(MAKE_DIRECTORY \${written}/man1 \${written}/man5)
  write(completion.bash completion bash)
  write(completion.zsh completion zsh)
  write(man1/tessera.1 man)
  write(man5/tessera.yaml.5 man yaml)
  execute_process(COMMAND \${program} completion words -- \"\" OUTPUT_VARIABLE commands COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL \"[^\\n]+\" commands \"\${commands}\")
  foreach(command \${commands})
    write(man1/tessera-\${command}.1 man \${command})
  endforeach()")
set(written ${CMAKE_BINARY_DIR}/written)
install(FILES ${written}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tessera)
install(FILES ${written}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _tessera)
install(DIRECTORY ${written}/man1 ${written}/man5 DESTINATION ${CMAKE_INSTALL_MANDIR})

# A program built for this machine's processor (TESSERA_NATIVE) may not run on another.
if(TESSERA_NATIVE)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "Tessera maintainers")
set(CPACK_PACKAGE_CONTACT "Tessera maintainers <maintainers@tessera.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Distributed training of GPT and BERT models under MPI")
set(CPACK_PACKAGE_DESCRIPTION "Trains transformers on many ranks: tensor and data parallel, with sharded checkpoints that load on
any layout of ranks. Needs an x86-64 processor with AVX2.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)          # dpkg-shlibdeps finds the packages of shared libraries
set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin)   # mpirun, on which no shared library depends
include(CPack)
