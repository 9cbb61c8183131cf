# `cmake --install BUILD` and, for builds that run on other machines, a Debian package by `cpack`.
include(GNUInstallDirs)

install(TARGETS tessera RUNTIME)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs configs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "*.py" EXCLUDE)

# The program writes its own completion scripts.
install(CODE "
  foreach(shell bash zsh)
    execute_process(COMMAND \"${CMAKE_BINARY_DIR}/tessera\" completion \${shell} COMMAND_ERROR_IS_FATAL ANY
      OUTPUT_FILE \"${CMAKE_BINARY_DIR}/completion.\${shell}\")
  endforeach()")
install(FILES ${CMAKE_BINARY_DIR}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tessera)
install(FILES ${CMAKE_BINARY_DIR}/completion.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _tessera)

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
