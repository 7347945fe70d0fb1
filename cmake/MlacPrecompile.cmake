# MLIR's and LLVM's headers that many files include (Precompiled.h), parsed once: on two cores of an
# x86-64 machine a kernel's file takes 4 s instead of 12.
#
# CMake's target_precompile_headers writes the checkout's path into what is made and into each
# command, so that ccache knows nothing of another checkout's objects: an object library of one
# header and the option -include-pch, whose path ccache takes as relative, do the same without.
#
# Off: each file sees its own includes alone, which finds those that are missing.
option(MLAC_PRECOMPILE "Parse headers of MLIR and LLVM once for all files" ON)
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(MLAC_PRECOMPILE OFF) # no other compiler knows -include-pch
endif()

# Writes PCH.sum, which ccache reads in place of the 190 MB of PCH (CCACHE_PCH_EXTSUM and
# CCACHE_IGNOREHEADERS of the presets): a digest of all headers in it. PCH holds the checkout's paths.
function(mlac_sum_headers header pch)
  list(TRANSFORM MLIR_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE includes)
  list(TRANSFORM LLVM_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE llvm_includes)
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -std=c++${CMAKE_CXX_STANDARD} -x c++ -M ${includes} ${llvm_includes}
            ${header}
    OUTPUT_VARIABLE files COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "^[^:]*:|\\\\\n" "" files "${files}")
  separate_arguments(files UNIX_COMMAND "${files}")
  set(sums)
  foreach(file IN LISTS files)
    file(SHA256 ${file} sum)
    string(APPEND sums ${sum})
  endforeach()
  string(SHA256 sum "${sums}")
  file(GENERATE OUTPUT ${pch}.sum CONTENT "${sum}\n")
endfunction()

if(MLAC_PRECOMPILE)
  set(MLAC_PRECOMPILED_HEADER ${CMAKE_CURRENT_LIST_DIR}/Precompiled.h)
  set_source_files_properties(${MLAC_PRECOMPILED_HEADER} PROPERTIES LANGUAGE CXX)
  add_library(mlac-precompiled OBJECT ${MLAC_PRECOMPILED_HEADER})
  target_compile_options(mlac-precompiled PRIVATE -xc++-header -fpch-instantiate-templates)
  # An object from another checkout would hold that one's paths: no cache.
  set_target_properties(mlac-precompiled PROPERTIES CXX_COMPILER_LAUNCHER "")
  # Ninja orders objects behind custom targets alone, not behind another target's objects.
  add_custom_target(mlac-precompile DEPENDS $<TARGET_OBJECTS:mlac-precompiled>)
  mlac_sum_headers(${MLAC_PRECOMPILED_HEADER} $<TARGET_OBJECTS:mlac-precompiled>)
endif()

# Whether a library of add_mlir_library links MLIR: what does not would miss what the headers refer to.
function(mlac_links_mlir variable target)
  string(REGEX REPLACE "^obj\\." "" library ${target})
  get_target_property(libraries ${library} INTERFACE_LINK_LIBRARIES)
  set(${variable} OFF PARENT_SCOPE)
  if(libraries MATCHES "MLIR")
    set(${variable} ON PARENT_SCOPE)
  endif()
endfunction()

# All targets of the folders, and of those in them; their flags are the compiler's.
function(mlac_precompile)
  if(NOT MLAC_PRECOMPILE)
    return()
  endif()
  foreach(folder IN LISTS ARGN)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      set(links_mlir ON)
      if(type STREQUAL "OBJECT_LIBRARY")
        mlac_links_mlir(links_mlir ${target})
      endif()
      if(NOT type MATCHES "OBJECT_LIBRARY|STATIC_LIBRARY|EXECUTABLE" OR NOT links_mlir)
        continue()
      endif()
      add_dependencies(${target} mlac-precompile)
      target_compile_options(${target} PRIVATE
        "SHELL:-include-pch $<TARGET_OBJECTS:mlac-precompiled>")
      if(type STREQUAL "EXECUTABLE")
        target_compile_options(${target} PRIVATE -fPIC) # as the headers were, not -fPIE
      endif()
    endforeach()
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    mlac_precompile(${folders})
  endforeach()
endfunction()
