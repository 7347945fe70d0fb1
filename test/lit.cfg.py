# Configuration of the lit tests: mla-opt and the other tools, FileCheck and not.
import os
import shutil
import subprocess
import sys

import lit.formats
from lit.llvm import llvm_config

config.name = "mlac"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "data", "unit", "python", "golden", "gpu", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.mlac_test_root
config.substitutions.append(("%data", config.mlac_data))
config.substitutions.append(("%python", sys.executable))

# Tests that make cubins say `REQUIRES: assembler`.
if subprocess.run(config.mlac_get_assembler, capture_output=True).returncode == 0:
    config.available_features.add("assembler")

# Tests that look at pages in a browser say `REQUIRES: chromium`.
if shutil.which("chromium"):
    config.available_features.add("chromium")

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_environment("PATH", config.mlac_tools_dir, append_path=True)
llvm_config.add_tool_substitutions(
    ["mla-opt", "mla-compile", "mla-run", "mla-lsp-server", "mlac-tools", "FileCheck", "not", "count", "mlir-translate"],
    [config.mlac_tools_dir, config.llvm_tools_dir],
)
