# MLAC_LINK_DYLIB=OFF: programs that need nothing but libc, libm and the loader, to be carried to
# other machines (scripts/wheels packs them).
#
# A distribution that builds libLLVM.so names it as the dependency of every MLIR and lld archive,
# so linking those archives alone still gives a program with two copies of LLVM. Here their
# dependency is LLVM's own archives, and every library that has one is linked as an archive.

# The targets that mlac compiles for; StaticLinkStubs.cpp stands for the others, which double the
# size of a program.
set(MLAC_LLVM_TARGETS ${LLVM_NATIVE_ARCH} NVPTX)
set(MLAC_TARGETS_LEFT_OUT ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM MLAC_TARGETS_LEFT_OUT ${MLAC_LLVM_TARGETS})
list(TRANSFORM MLAC_TARGETS_LEFT_OUT REPLACE "(.+)" "NO_TARGET(\\1)")
list(JOIN MLAC_TARGETS_LEFT_OUT "\n" MLAC_TARGETS_LEFT_OUT)

# The archives that a static link of MLIR and lld needs.
llvm_map_components_to_libnames(MLAC_LLVM_ARCHIVES
  ${MLAC_LLVM_TARGETS} Core DebugInfoDWARF DTLTO IPO IRReader Linker LTO Object Option Passes
  Support SupportLSP Target TargetParser)

function(mlac_archive variable name)
  find_library(${variable} NAMES lib${name}.a REQUIRED)
endfunction()
mlac_archive(MLAC_ZLIB_ARCHIVE z)
mlac_archive(MLAC_ZSTD_ARCHIVE zstd)

foreach(target IN LISTS MLIR_EXPORTED_TARGETS LLD_EXPORTED_TARGETS LLVM_AVAILABLE_LIBS)
  if(NOT TARGET ${target})
    continue()
  endif()
  get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
  if(NOT libraries)
    continue()
  endif()
  list(TRANSFORM libraries REPLACE "^ZLIB::ZLIB$" "${MLAC_ZLIB_ARCHIVE}")
  list(TRANSFORM libraries REPLACE "^zstd::libzstd_shared$" "${MLAC_ZSTD_ARCHIVE}")
  # Debian has no archive of the Polly that it built in; StaticLinkStubs.cpp stands for it.
  list(REMOVE_ITEM libraries Polly)
  # LLVM's SMT solver interface: nothing here calls it.
  list(FILTER libraries EXCLUDE REGEX "libz3")
  if(LLVM IN_LIST libraries)
    list(REMOVE_ITEM libraries LLVM)
    list(APPEND libraries ${MLAC_LLVM_ARCHIVES})
  endif()
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${libraries}")
endforeach()

# Half of a program's size is code that nothing calls.
add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections)
