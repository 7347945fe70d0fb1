# Finds the distribution's MLIR and sets up the directories and flags that its
# AddMLIR functions expect. Options must be set before AddLLVM is included.
find_package(MLIR 22.1 REQUIRED CONFIG)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
# lld links CPU images inside the compiler.
find_package(LLD ${LLVM_PACKAGE_VERSION} EXACT REQUIRED CONFIG HINTS "${LLVM_CMAKE_DIR}/../lld")
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
# What add_mlir_library makes is internal: `cmake --install` installs no archive of it.
set(LLVM_INSTALL_TOOLCHAIN_ONLY ON)
set(MLIR_LINK_MLIR_DYLIB ${MLAC_LINK_DYLIB})
set(LLVM_LINK_LLVM_DYLIB ${MLAC_LINK_DYLIB})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
if(NOT MLAC_LINK_DYLIB)
  include(MlacStaticLLVM)
endif()
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
separate_arguments(MLAC_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${MLAC_LLVM_DEFINITIONS})
# The packages are built without exceptions but with RTTI.
add_compile_options(-fno-exceptions -Wall -Wextra -Wno-unused-parameter)
