# MLIR's and LLVM's headers that many files include, parsed once: on two cores of an x86-64 machine
# a kernel's file takes 4 s instead of 12. Headers of ours are none of them, so that an edit is
# parsed where it is included, and nowhere else.
#
# Off: each file sees its own includes alone, which finds those that are missing.
option(MLAC_PRECOMPILE "Parse headers of MLIR and LLVM once for all files" ON)

if(MLAC_PRECOMPILE)
  add_library(mlac-precompiled OBJECT ${CMAKE_CURRENT_LIST_DIR}/Precompiled.cpp)
  target_precompile_headers(mlac-precompiled PRIVATE
    <mlir/Dialect/Arith/IR/Arith.h>
    <mlir/Dialect/Func/IR/FuncOps.h>
    <mlir/Dialect/LLVMIR/NVVMDialect.h>
    <mlir/Dialect/Math/IR/Math.h>
    <mlir/Dialect/MemRef/IR/MemRef.h>
    <mlir/Dialect/SCF/IR/SCF.h>
    <mlir/Dialect/Tensor/IR/Tensor.h>
    <mlir/Dialect/Utils/StaticValueUtils.h>
    <mlir/IR/Builders.h>
    <mlir/IR/BuiltinOps.h>
    <mlir/IR/DialectImplementation.h>
    <mlir/IR/IRMapping.h>
    <mlir/IR/ImplicitLocOpBuilder.h>
    <mlir/IR/Matchers.h>
    <mlir/IR/OpImplementation.h>
    <mlir/IR/PatternMatch.h>
    <mlir/IR/TypeUtilities.h>
    <mlir/Parser/Parser.h>
    <mlir/Pass/PassManager.h>
    <llvm/ADT/STLExtras.h>
    <llvm/ADT/SetVector.h>
    <llvm/ADT/StringExtras.h>
    <llvm/ADT/StringMap.h>
    <llvm/ADT/TypeSwitch.h>
    <llvm/Support/FileSystem.h>
    <llvm/Support/FormatVariadic.h>
    <llvm/Support/MathExtras.h>
    <llvm/Support/MemoryBuffer.h>)
  # Else the file would differ with each checkout's times, and ccache would know nothing again.
  target_compile_options(mlac-precompiled PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
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
      target_precompile_headers(${target} REUSE_FROM mlac-precompiled)
      if(type STREQUAL "EXECUTABLE")
        target_compile_options(${target} PRIVATE -fPIC) # as the headers were, not -fPIE
      endif()
    endforeach()
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    mlac_precompile(${folders})
  endforeach()
endfunction()
