# Generates package_generated.h from the package's schema.
find_program(MLAC_FLATC flatc REQUIRED)
find_path(MLAC_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
set(MLAC_SCHEMA ${PROJECT_SOURCE_DIR}/runtime/schema/package.fbs)
set(MLAC_SCHEMA_DIR ${PROJECT_BINARY_DIR}/generated)
set(MLAC_SCHEMA_HEADER ${MLAC_SCHEMA_DIR}/package_generated.h)
add_custom_command(
  OUTPUT ${MLAC_SCHEMA_HEADER}
  COMMAND ${MLAC_FLATC} --cpp --cpp-std c++17 --scoped-enums --gen-object-api -o ${MLAC_SCHEMA_DIR} ${MLAC_SCHEMA}
  DEPENDS ${MLAC_SCHEMA} COMMENT "Generating package_generated.h")
add_custom_target(mlac_package_schema_gen DEPENDS ${MLAC_SCHEMA_HEADER})
add_library(mlac_package_schema INTERFACE)
target_include_directories(mlac_package_schema SYSTEM INTERFACE ${MLAC_SCHEMA_DIR} ${MLAC_FLATBUFFERS_INCLUDE})
# PackageTrailer.h: what follows the FlatBuffer in a file.
target_include_directories(mlac_package_schema INTERFACE ${PROJECT_SOURCE_DIR}/runtime/schema)
add_dependencies(mlac_package_schema mlac_package_schema_gen)
