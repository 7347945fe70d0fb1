/*===- UseFromC.c - the C API used from C ---------------------------*- C
-*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===*/

#include "mla_runtime.h"

#include <string.h>

/* Returns 0 if the API behaves as a C program expects. */
int mlac_test_use_from_c(void) {
  mla_device *device = NULL;
  mla_engine_options options;
  const char *json = NULL;
  mla_engine_options_init(&options);
  if (options.struct_bytes != sizeof options)
    return 1;
  if (mla_device_open("cpu", 1, &device) != MLA_OK)
    return 2;
  if (mla_device_info(device, &json) != MLA_OK || !strstr(json, "\"cpu\""))
    return 3;
  if (mla_device_close(device) != MLA_OK)
    return 4;
  return strlen(mla_runtime_version()) > 0 ? 0 : 5;
}
