//===- Precompiled.cpp - who precompiled headers are made for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CMake makes them for a target, and a target has a source (MlacPrecompile.cmake).
//
//===----------------------------------------------------------------------===//
