# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cache formats from Python: the golden bytes of paged-cache.md section 4 (B03)."""

import array
import struct
import unittest

import mlac

PAGES, ROW = 4, 656


def bf16(values):
    """Bits of values that bf16 has exactly."""
    return array.array("H", [struct.unpack("<I", struct.pack("<f", v))[0] >> 16 for v in values])


class CacheTest(unittest.TestCase):
    def test_B03_golden_row(self):
        row = [0.0] * 576
        row[0], row[1], row[128], row[129], row[575] = -896.0, 1.0, 1.0, 0.5, -2.0
        pool = bytearray(PAGES * 64 * ROW)
        layout = mlac.CacheLayout("fp8_ds_mla", num_pages=PAGES)
        layout.encode(bf16(row), pool, slots=[130])
        at = layout.offset("latent", 130)
        self.assertEqual(at, 2 * 64 * ROW + 1312)
        self.assertEqual(bytes(pool[at:at + 2]), bytes([0xFE, 0x30]))
        self.assertEqual(bytes(pool[at + 128:at + 130]), bytes([0x7E, 0x76]))
        scales = struct.unpack_from("<4f", pool, layout.offset("scale", 130))
        self.assertEqual(scales[0], 2.0)
        self.assertEqual(scales[1], struct.unpack("<f", struct.pack("<f", 1 / 448))[0])
        self.assertEqual(struct.unpack_from("<H", pool, at + ROW - 2)[0], bf16([-2.0])[0])
        power = mlac.CacheLayout("fp8_ds_mla", num_pages=PAGES, scale_rule="power_of_two")
        power.encode(bf16(row), pool, slots=[130])
        self.assertEqual(pool[at + 128], 0x78)
        back = bf16([7.0] * 576)
        power.decode(pool, back, slots=[130])
        self.assertEqual(back, bf16(row))

    def test_wrong_arguments_are_named(self):
        layout = mlac.CacheLayout("fp8_ds_mla", num_pages=PAGES)
        rows = bf16([0.0] * 576)
        with self.assertRaisesRegex(ValueError, "slot 256 of row 0, the pool has 256"):
            layout.encode(rows, bytearray(PAGES * 64 * ROW), slots=[256])
        with self.assertRaisesRegex(ValueError, "expected shape"):
            layout.encode(rows[:575], bytearray(PAGES * 64 * ROW))
        with self.assertRaisesRegex(ValueError, "read-only"):
            layout.encode(rows, bytes(PAGES * 64 * ROW))
        with self.assertRaises(mlac.Unsupported):
            mlac.CacheLayout("fp4", num_pages=1).offset("latent", 0)
        for method in ("encode", "decode"):
            with self.assertRaisesRegex(mlac.Unsupported, "cache format 'fp4', known: mla_16"):
                getattr(mlac.CacheLayout("fp4", num_pages=1), method)(bytearray(2), bytearray(2))
            for columns, wrong in (((0, 0), "latent = 0"), ((2, -2), "rope = -2")):
                layout = mlac.CacheLayout("mla_16", columns=columns, num_pages=1)
                with self.assertRaisesRegex(mlac.InvalidArgument, f"{wrong}, expected [01] to"):
                    getattr(layout, method)(bf16([1.0]), bf16([1.0]))
        with self.assertRaisesRegex(TypeError, "no argument 'pages'"):
            mlac.CacheLayout("fp8_ds_mla", pages=1)

    def test_table(self):
        names = [entry["name"] for entry in mlac.cache_formats()]
        self.assertEqual(names, ["mla_16", "mla_f32", "mla_fp8_tensor", "fp8_ds_mla",
                                 "split_ckv_kpe", "kv_nhd", "k_nhd", "v_nhd", "kv_nhd_fp8",
                                 "index_k", "index_k_mxfp4", "model1_584"])


if __name__ == "__main__":
    unittest.main()
